"""Write options are those of Spark's Kafka sink and of the client; options without effect are refused."""

import pytest

from pipeline_broker.records.compression import Compression
from pyspark_pipeline_broker.sink.sink_options import SinkOptions

SERVERS = {"kafka.bootstrap.servers": "a:1, b"}


def read(is_streaming=True, **said):
    return SinkOptions.read(
        {**SERVERS, **{name.replace("__", "."): it for name, it in said.items()}}, is_streaming=is_streaming
    )


def test_servers_are_enough():
    options = read()
    assert options.addresses == (("a", 1), ("b", 9092))
    assert (options.topic, options.transactional_id, options.compression) == (None, None, Compression.NONE)
    assert read(kafka__bootstrap__servers="[::1]:5,[::2]").addresses == (("::1", 5), ("::2", 9092))


def test_options_ignore_case_and_those_added_by_spark_are_skipped():
    options = read(Topic="t", KAFKA__Compression__Type="LZ4", checkpointLocation="/c", queryName="q")
    assert (options.topic, options.compression) == ("t", Compression.LZ4)


def test_a_transactional_stream_has_a_topic_for_its_committed_batches():
    assert read(transactional__id="x").transactions_topic == "x-transactions"
    assert read(transactional__id="x", transactions__topic="y").transactions_topic == "y"


def test_properties_of_the_client_secure_its_connections():
    given = {"kafka__sasl__mechanism": "PLAIN", "kafka__sasl__username": "u", "kafka__sasl__password": "p"}
    security = read(kafka__security__protocol="SASL_PLAINTEXT", **given).security
    assert (security.mechanism, security.username) == ("PLAIN", "u")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"kafka__bootstrap__servers": " ,"}, "names no broker"),
        ({"kafka__bootstrap__servers": "a:x"}, "has 'a:x', which is not host:port"),
        ({"kafka__bootstrap__servers": "a:70000"}, "which is not host:port"),
        ({"topics": "t"}, "unknown option topics of a write. Did you mean topic?"),
        ({"kafka__lingerms": "1"}, r"named here without the prefix: unknown property 'lingerms'"),
        ({"kafka__compression__type": "zip"}, "kafka.compression.type must be one of none, gzip"),
        ({"kafka__request__timeout__ms": "1s"}, "kafka.request.timeout.ms must be a number of milliseconds: '1s'"),
        ({"kafka__transaction__timeout__ms": "0"}, "kafka.transaction.timeout.ms must be 1 to"),
        ({"transactions__topic": "t"}, "has no effect without transactional.id"),
        ({"transactional__id": ""}, "transactional.id is empty"),
    ],
)
def test_a_wrong_option_is_one_line(said, reason):
    with pytest.raises(ValueError, match=reason.replace("?", r"\?")) as caught:
        read(**said)
    assert "\n" not in str(caught.value)


def test_a_batch_has_no_transactions_and_servers_are_needed():
    with pytest.raises(ValueError, match=r"transactional.id needs a stream"):
        read(is_streaming=False, transactional__id="x")
    with pytest.raises(ValueError, match=r"kafka.bootstrap.servers is missing"):
        SinkOptions.read({"topic": "t"}, is_streaming=True)
