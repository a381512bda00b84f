"""compression.type, of a topic or inherited, acts on the next batch, on the fast path of Produce too."""

import pytest

from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches
from pipeline_broker.records.compression import Compression
from pipeline_broker.records.recompression import Target
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from stages.request import Parked
from tests.apis.desk import Desk

VERSION = 9
SET = 0
TOPIC, BROKER = (2, "t"), (4, "")


def desk_with(*settings, **configs):
    desk = Desk(*settings)
    given = [CreateTopicsRequest.CreatableTopicConfig(name.replace("_", "."), text) for name, text in configs.items()]
    desk.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("t", 1, 1, configs=given)]), 7)
    return desk


def alter(desk, resource, name, value):
    made = IncrementalAlterConfigsRequest
    change = made.AlterConfigsResource(*resource, [made.AlterableConfig(name, SET, value)])
    assert desk.ask(made(resources=[change]), 1).responses[0].error_code == 0


def produce_request(batch):
    data = ProduceRequest.TopicProduceData(name="t", partition_data=[ProduceRequest.PartitionProduceData(0, batch)])
    return ProduceRequest(acks=-1, topic_data=[data])


def produce(desk, value=b"value", codec=Compression.NONE):
    batch = build_batch([NewRecord(value, b"key", desk.now_ms)], compression=codec)
    assert desk.ask(produce_request(batch), VERSION).responses[0].partition_responses[0].error_code == 0


def codecs(desk):
    (log,) = desk.broker.logs.partitions("t")
    result = log.read(0, 1 << 20, at_least_one=True)
    parts = result.parts if result.cold is None else result.cold()
    return [header.compression for header, _ in iterate_batches(b"".join(parts))]


def test_a_change_acts_on_the_next_batch_that_is_like_one_before():
    """The second identical request takes the fast path, until the topic changes."""
    desk = desk_with()
    produce(desk)
    produce(desk)
    assert desk.connection.session.produce_templates is not None
    alter(desk, TOPIC, "compression.type", "gzip")
    produce(desk)
    produce(desk)
    alter(desk, TOPIC, "compression.type", "uncompressed")
    produce(desk)
    produce(desk)
    assert codecs(desk) == [Compression.NONE] * 2 + [Compression.GZIP] * 2 + [Compression.NONE] * 2


def test_a_batch_in_another_codec_is_recompressed_in_a_thread():
    desk = desk_with(compression_type="gzip")
    batch = build_batch([NewRecord(b"value", b"key", desk.now_ms)], compression=Compression.LZ4)
    for _ in range(2):  # the second one is like one before
        result = desk.decide(produce_request(batch), VERSION)
        assert isinstance(result.first, Parked)
        assert result.first.work is not None
        assert desk.finish(produce_request(batch), VERSION, result).responses[0].partition_responses[0].error_code == 0
    assert codecs(desk) == [Compression.GZIP] * 2


def test_the_broker_setting_is_inherited_and_overridden():
    desk = desk_with("compression.type=lz4")
    produce(desk)
    alter(desk, BROKER, "compression.type", "zstd")
    produce(desk)
    alter(desk, TOPIC, "compression.type", "producer")
    produce(desk)
    assert codecs(desk) == [Compression.LZ4, Compression.ZSTD, Compression.NONE]


@pytest.mark.parametrize(
    ("configs", "target"),
    [
        ({"compression_type": "producer", "compression_gzip_level": "9"}, None),
        ({"compression_type": "uncompressed"}, Target(Compression.NONE)),
        ({"compression_type": "snappy"}, Target(Compression.SNAPPY)),
        ({"compression_type": "gzip"}, Target(Compression.GZIP)),
        ({"compression_type": "gzip", "compression_gzip_level": "9"}, Target(Compression.GZIP, 9)),
        ({"compression_type": "lz4", "compression_lz4_level": "3"}, Target(Compression.LZ4, 3)),
        ({"compression_type": "zstd", "compression_zstd_level": "-1"}, Target(Compression.ZSTD, -1)),
    ],
)
def test_the_settings_mean(configs, target):
    (log,) = desk_with(**configs).broker.logs.partitions("t")
    assert log.rules.compression == target
