"""`pipeline-broker produce` against a broker."""

import time

import pytest

from pipeline_broker import EmbeddedBroker
from pipeline_broker.client import cluster_client
from pipeline_broker.client.outbox import IN_FLIGHT_MAX
from pipeline_broker.commands.cluster import produce
from tests.commands.cluster.conftest import CommandLine


def stored(broker, topic):
    return [(it.partition, it.offset, it.key, it.value, it.headers) for it in broker.records(topic)]


def test_lines_are_records_and_the_topic_is_created(call_mode, broker, name):
    before_ms = time.time_ns() // 1_000_000
    call_mode("produce", name, data=b"one\n\ntwo")
    records = broker.records(name)
    assert [it.value for it in records] == [b"one", b"", b"two"]
    assert {it.key for it in records} == {None}
    assert len({it.partition for it in records}) == 1, "records without a key stay together"
    assert all(before_ms <= it.timestamp <= time.time_ns() // 1_000_000 for it in records)


def test_keys_headers_tombstones_and_partition(call_mode, broker, name):
    call_mode("produce", name, "-K", ":", "-H", "a=1", "-H", "b=x=y", "-Z", "-p", 1, data=b"k:v:w\nk:\n")
    headers = (("a", b"1"), ("b", b"x=y"))
    assert stored(broker, name) == [(1, 0, b"k", b"v:w", headers), (1, 1, b"k", None, headers)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_every_codec_and_every_kind_of_acknowledgement(call, one_broker, name, codec, acks):
    call("produce", name, "-z", codec, "--acks", acks, data=b"x" * 500 + b"\ny\n")
    assert [it.value for it in one_broker.records(name)] == [b"x" * 500, b"y"]


def test_json_lines_have_all_fields(call, one_broker, name):
    lines = (
        b'{"value": "a", "key": "k", "headers": {"h": "1"}, "partition": 1, "timestamp": 1234}\n'
        b'\n{"value_base64": "/w==", "partition": 1, "topic": "other", "offset": 7}\n'
        b'{"value": null, "key_base64": "/g==", "partition": 1}\n'
    )
    call("produce", name, "--json", data=lines)
    assert stored(one_broker, name) == [
        (1, 0, b"k", b"a", (("h", b"1"),)),
        (1, 1, None, b"\xff", ()),
        (1, 2, b"\xfe", None, ()),
    ]
    assert one_broker.records(name)[0].timestamp == 1234


def test_offsets_are_printed_on_request(call, name):
    assert sorted(call("produce", name, "--offsets", "-p", 1, data=b"a\nb\n").lines) == ["1\t1\t0", "2\t1\t1"]
    assert call("produce", name, "--offsets", "-p", 1, "--json", data=b'{"value": ""}').json == {
        "record": 1, "partition": 1, "offset": 2,
    }  # fmt: skip
    assert call("produce", name, "--offsets", "-p", 0, "--acks", "0", data=b"a\n").lines == ["1\t0\t-"]


def test_files_are_read_one_after_the_other_by_lines_or_whole(call, one_broker, name, tmp_path):
    for number in (1, 2):
        (tmp_path / f"{number}").write_bytes(b"a\nb%d" % number)
    files = [tmp_path / "1", tmp_path / "2"]
    call("produce", name, *files, "-p", 0)
    call("produce", name, *files, "-p", 1, "--whole", "--key", "k")
    assert [it.value for it in one_broker.records(name, partition=0)] == [b"a", b"b1", b"a", b"b2"]
    assert [(it.key, it.value) for it in one_broker.records(name, partition=1)] == [(b"k", b"a\nb1"), (b"k", b"a\nb2")]


def test_records_end_where_the_delimiter_says(call, one_broker, name):
    call("produce", name, "-D", r"\0;", data=b"a\nb\0;c\0d\0;")
    assert [it.value for it in one_broker.records(name)] == [b"a\nb", b"c\0d"]


def test_input_beyond_the_memory_limit_arrives_in_order(call_mode, broker, name, monkeypatch):
    monkeypatch.setattr("pipeline_broker.client.producer.UNACKNOWLEDGED_BYTES_MAX", 100_000)
    lines = [b"k%d:%d" % (number % 7, number) for number in range(30_000)]
    call_mode("produce", name, "-K", ":", "-z", "zstd", data=b"\n".join(lines))
    found = {}
    for it in broker.records(name):
        found.setdefault(it.key, []).append(int(it.value))
    assert found == {b"k%d" % key: list(range(key, 30_000, 7)) for key in range(7)}


@pytest.mark.parametrize("in_flight_max", [1, IN_FLIGHT_MAX])
def test_records_keep_their_order_however_many_requests_are_in_flight(call_mode, broker, name, in_flight_max):
    lines = [b"%d" % number + b"x" * 2_000 for number in range(3_000)]
    call_mode("produce", name, "-p", 0, "--max-in-flight", in_flight_max, data=b"\n".join(lines))
    assert [it.value for it in broker.records(name)] == lines


def test_no_more_requests_are_in_flight_than_brokers_recognize(call, name):
    assert produce.IN_FLIGHT_MAX == IN_FLIGHT_MAX
    refused = call("produce", name, "--max-in-flight", IN_FLIGHT_MAX + 1, code=2).err
    assert "6 is not in the range 1<=x<=5" in refused


def test_batches_are_halved_until_the_topic_takes_them(call, one_broker, name):
    call("topics", "create", name, "--partitions", 1, "--config", "max.message.bytes=1000")
    call("produce", name, data=b"".join(b"%0200d\n" % number for number in range(50)))
    assert [int(it.value) for it in one_broker.records(name)] == list(range(50))


def test_retriable_errors_are_retried(call, one_broker, name):
    call("topics", "create", name, "--partitions", 1)
    one_broker.faults.when("Produce", topic=name, every=2).error("NOT_LEADER_OR_FOLLOWER")
    for number in range(4):
        call("produce", name, data=b"%d\n" % number)
    one_broker.faults.clear()
    assert [int(it.value) for it in one_broker.records(name)] == list(range(4))


def test_an_invalid_line_is_named_and_earlier_lines_are_written(call, one_broker, name):
    called = call("produce", name, "--json", code=1, data=b'{"value": "a"}\n{"vlaue": "b"}\n')
    assert called.err.startswith("Error: line 2: unknown field 'vlaue'")
    assert "All earlier lines were written" in called.err
    assert [it.value for it in one_broker.records(name)] == [b"a"]


@pytest.mark.parametrize(
    ("arguments", "data", "code", "message"),
    [
        (["-K", ":"], b"a:1\nb\n", 1, "line 2: the line has no key delimiter ':'"),
        (["-p", "7"], b"a\n", 1, "has no partition 7: its partitions are 0 to 1"),
        (["--json", "-K", ":"], b"", 2, "--json contradicts"),
        (["--whole", "-D", ";"], b"", 2, "--whole and --delimiter contradict each other"),
        (["-D", r"\q"], b"", 2, "unknown escape"),
        (["-D", ""], b"", 2, "give at least one character"),
        (["-H", "noequals"], b"", 2, "expected NAME=VALUE, such as source=orders.csv"),
        (["/nowhere/file"], b"", 1, "/nowhere/file: No such file or directory"),
        (["-z", "brotli"], b"", 2, "'brotli' is not one of"),
    ],
)
def test_an_error_is_one_line(call, name, arguments, data, code, message):
    called = call("produce", name, *arguments, code=code, data=data)
    assert called.err.startswith("Error: ")
    assert message in called.err
    assert called.err.count("\n") == 1


def test_a_record_that_is_too_large_is_named(call, name):
    call("topics", "create", name, "--partitions", 1, "--config", "max.message.bytes=1000")
    assert "record 2 for" in call("produce", name, code=1, data=b"a\n" + b"x" * 5000 + b"\n").err


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_a_full_disk_is_reported_to_the_first_writer_and_to_later_ones(name, mode):
    """The first write waits for space without a response, later ones are rejected; with space all succeed."""
    with EmbeddedBroker(mode=mode) as broker:
        call = CommandLine(broker.bootstrap_servers)
        call("produce", name, "--no-idempotent", data=b"before\n")
        broker.faults.disk_when("write").error("ENOSPC")
        options = ("--no-idempotent", "--timeout", "0.5")
        first = call("produce", name, *options, code=1, data=b"first\n").err
        later = call("produce", name, *options, code=1, data=b"later\n").err
        idempotent = call("produce", name, "--timeout", "0.5", code=1, data=b"later\n").err
        broker.faults.clear()
        call("produce", name, data=b"after\n")
        values = [record.value for record in broker.records(name)]

    assert "did not answer ProduceRequest within 0.5 s: it cannot write now, as on a full disk" in first
    assert f"nothing could be written to {name} for 0.5 s: The broker's storage failed" in later
    assert "producer id: The broker's storage failed" in idempotent
    assert {told.count("\n") for told in (first, later, idempotent)} == {1}
    assert values == [b"before", b"first", b"after"]


def test_a_hanging_disk_is_reported(name):
    with EmbeddedBroker() as broker:
        call = CommandLine(broker.bootstrap_servers)
        call("produce", name, data=b"before\n")
        broker.faults.disk_when("write").pause()
        hung = call("produce", name, "--timeout", "0.5", code=1, data=b"first\n").err
        broker.faults.clear()

    assert "within 0.5 s, but answers others: it may wait for its disk\n" in hung


@pytest.mark.parametrize(
    ("also", "told"),
    [
        (("InitProducerId", {}), ", nor any other request"),
        (("ApiVersions", {"nth": 2}), ", and accepts no other connection"),
    ],
)
def test_a_silent_broker_is_reported(name, monkeypatch, also, told):
    monkeypatch.setattr(cluster_client, "PROBE_S_MAX", 0.3)
    with EmbeddedBroker() as broker:
        call = CommandLine(broker.bootstrap_servers)
        call("topics", "create", name)
        broker.faults.when("Produce").drop()
        broker.faults.when(also[0], **also[1]).drop()
        silent = call("produce", name, "--no-idempotent", "--timeout", "0.5", code=1, data=b"first\n").err

    assert silent.endswith(f"did not answer ProduceRequest within 0.5 s{told}\n")


def test_empty_input_writes_no_record(call, one_broker, name):
    call("produce", name)
    assert one_broker.records(name) == []
