"""`pipeline-broker consume` against a broker."""

import json
import threading

import pytest

from pipeline_broker.records.batch import NewRecord, build_batch


def fill(broker, topic, count, *, partitions=2):
    """Write values 0, 1, ..., with the number as timestamp, to the partitions in turn."""
    broker.create_topic(topic, partitions=partitions)
    for number in range(count):
        broker.produce(topic, str(number), key=f"k{number}", partition=number % partitions, timestamp=1000 + number)


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ([], range(10)),
        (["--from", "beginning"], range(10)),
        (["-p", 1], range(1, 10, 2)),
        (["-p", 1, "-p", 0], range(10)),
        (["-o", 3], range(6, 10)),
        (["-o", "-1"], (8, 9)),
        (["--last", 2], (6, 7, 8, 9)),
        (["--last", 100], range(10)),
        (["-o", "@0000000001006"], range(6, 10)),
        (["-o", "end", "--exit"], ()),
        (["--until", 1], (0, 1)),
        (["--until", "@0000000001004"], range(4)),
        (["-o", 1, "--until", "-1"], range(2, 8)),
        (["-o", "@9999999999999"], ()),
        (["-p", 0, "-c", 3], (0, 2, 4)),
        (["-c", 100], range(10)),
    ],
)
def test_reading_begins_and_ends_where_it_should(call, one_broker, name, arguments, values):
    fill(one_broker, name, 10)
    assert sorted(map(int, call("consume", name, *arguments).lines)) == list(values)


def test_both_modes_are_read_in_the_order_of_their_partitions(call_mode, broker, name):
    fill(broker, name, 30)
    called = call_mode("consume", name, "-f", r"%p %o %k %s\n")
    for partition in range(2):
        found = [line for line in called.lines if line.startswith(f"{partition} ")]
        assert found == [f"{partition} {it} k{2 * it + partition} {2 * it + partition}" for it in range(15)]


def test_several_topics_are_read_together(call, one_broker, name):
    fill(one_broker, name, 2)
    fill(one_broker, f"{name}-b", 2)
    assert sorted(call("consume", name, f"{name}-b", name, "-f", r"%t %s\n").lines) == sorted(
        f"{topic} {number}" for topic in (name, f"{name}-b") for number in range(2)
    )


def test_printed_json_can_be_written_again(call, one_broker, name):
    lines = (
        b'{"value":"a","headers":[{"name":"h","value":null}],"timestamp":5,"partition":1}\n'
        b'{"key_base64":"/w==","value":null}\n'
    )
    call("produce", name, "--json", data=lines)
    printed = call("consume", name, "--json")
    call("produce", f"{name}-copy", "--json", data=printed.raw)
    copied = call("consume", f"{name}-copy", "--json")
    assert [{**row, "topic": name} for row in map(json.loads, sorted(copied.lines, key=repr))] == [
        json.loads(line) for line in sorted(printed.lines, key=repr)
    ]


def test_keys_nulls_and_bytes_that_are_not_text(call, name):
    call("produce", name, "-K", ":", "-Z", "-p", 0, data=b"a:\xff\x1b\nb:\n")
    assert call("consume", name, "-K", "%=", "--null", "NONE").raw == b"a%=\xff\x1b\nb%=NONE\n"


def test_aborted_records_are_hidden_by_default(call, one_broker, name):
    import confluent_kafka

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": one_broker.bootstrap_servers, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(10)
    for value, end in (("lost", producer.abort_transaction), ("kept", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(name, value, partition=0)
        producer.flush(10)
        end(10)
    assert call("consume", name).lines == ["kept"]
    assert call("consume", name, "--isolation", "read_uncommitted").lines == ["lost", "kept"]


def test_following_ends_after_the_count(call, one_broker, name):
    fill(one_broker, name, 2)

    def write():
        one_broker.wait_fetching(name)
        for number in range(2, 5):
            one_broker.produce(name, str(number), partition=0)

    writer = threading.Thread(target=write)
    writer.start()
    lines = call("consume", name, "--follow", "-c", 5).lines
    writer.join()
    assert sorted(lines) == ["0", "1", "2", "3", "4"]


def test_from_the_end_it_follows_by_default(call, one_broker, name):
    fill(one_broker, name, 2)
    writer = threading.Thread(target=lambda: (one_broker.wait_fetching(name), one_broker.produce(name, "new")))
    writer.start()
    assert call("consume", name, "-o", "end", "-c", 1).lines == ["new"]
    writer.join()


def test_a_group_continues_at_its_offset_even_inside_a_batch(call_mode, broker, name):
    broker.create_topic(name, partitions=1)
    call_mode("produce", name, data=b"\n".join(b"%d" % number for number in range(10)))
    assert call_mode("consume", name, "-g", name, "-c", 4).lines == ["0", "1", "2", "3"]
    assert broker.offsets(name) == {(name, 0): 4}
    assert call_mode("consume", name, "-g", name, "--no-commit", "-c", 1).lines == ["4"]
    assert call_mode("consume", name, "-g", name).lines == ["4", "5", "6", "7", "8", "9"]
    assert broker.lag(name) == {(name, 0): 0}
    assert call_mode("consume", name, "-g", name).lines == []


def test_a_new_group_begins_at_the_given_place(call, one_broker, name):
    fill(one_broker, name, 3, partitions=1)
    assert call("consume", name, "-g", name, "-o", "end", "--exit").lines == []
    one_broker.produce(name, "new")
    assert call("consume", name, "-g", name, "-o", "end", "--exit").lines == []
    assert call("consume", name, "-g", f"{name}-b", "-o", "-1").lines == ["new"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere"], 1, "unknown topic 'nowhere'"),
        (["nowhere", "-g", "g"], 1, "unknown topic 'nowhere'"),
        (["TOPIC", "-p", "5"], 1, "has no partition 5: its partitions are 0 to 1"),
        (["TOPIC", "-o", "9"], 1, "has no offset 9: it begins at 0 and ends before 1"),
        (["TOPIC", "-o", "sometime"], 2, "--from: 'sometime' is not a position"),
        (["TOPIC", "-f", "%z"], 2, "unknown field %z"),
        (["TOPIC", "-f", "%s", "--json"], 2, "--format and --json contradict each other"),
        (["TOPIC", "--last", "1", "-o", "end"], 2, "--last and --from contradict each other"),
        (["TOPIC", "--until", "1", "--follow"], 2, "--until and --follow contradict each other"),
        (["TOPIC", "-g", "g", "-p", "0"], 2, "--group and --partition contradict each other"),
        (["TOPIC", "-g", "g", "--until", "end"], 2, "--group and --until contradict each other"),
        (["TOPIC", "-g", "g", "--last", "1"], 2, "--group and --last contradict each other"),
        (["TOPIC", "-f", "%s", "-K", ":"], 2, "--format and --key-delimiter contradict each other"),
        (["TOPIC", "-K", ":", "--json"], 2, "--key-delimiter and --json contradict each other"),
        (["TOPIC", "--no-commit"], 2, "--no-commit needs --group"),
        ([], 2, "Missing argument 'TOPIC...'"),
    ],
)
def test_an_error_is_one_line(call, one_broker, name, arguments, code, message):
    fill(one_broker, name, 2)
    called = call("consume", *[name if it == "TOPIC" else it for it in arguments], code=code)
    assert called.err.startswith("Error: ")
    assert message in called.err
    assert (called.err.count("\n"), called.out) == (1, "")


def test_highly_compressed_records_are_read(call, name):
    call("produce", name, "-z", "zstd", data=b"x" * 900_000 + b"\n")
    assert len(call("consume", name).out) == 900_001
    assert len(build_batch([NewRecord(b"x" * 900_000)], compression=4)) < 1000
