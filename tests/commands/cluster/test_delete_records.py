"""`pipeline-broker delete-records` against a broker."""

import pytest

BEGAN_MS = 1_700_000_000_000


def fill(broker, topic):
    broker.create_topic(topic, partitions=2)
    for number in range(7):
        broker.produce(topic, str(number), partition=number % 2, timestamp=BEGAN_MS + number)


def starts(call, topic):
    (described,) = call("topics", "describe", topic, "--json").json
    return [row["start"] for row in described["partitions"]]


@pytest.mark.parametrize(
    ("what", "before", "expected"),
    [
        ("TOPIC", "latest", [4, 3]),
        ("TOPIC", "2", [2, 2]),
        ("TOPIC:1", "2", [0, 2]),
        ("TOPIC:0,1", "-1", [3, 2]),
        ("TOPIC", "99", [4, 3]),
        ("TOPIC", f"@{BEGAN_MS + 3}", [2, 1]),
        ("TOPIC", "earliest", [0, 0]),
    ],
)
def test_records_before_a_place_are_shown_and_deleted_on_request(call_mode, broker, name, what, before, expected):
    fill(broker, name)
    command = ["delete-records", what.replace("TOPIC", name), "--before", before]
    planned = call_mode(*command)
    assert "nothing was deleted: give --execute to delete these records" in planned.err
    assert starts(call_mode, name) == [0, 0]
    done = call_mode(*command, "--execute", "--json").json
    assert done["executed"]
    assert {row["partition"]: row["to"] for row in done["partitions"]}.items() <= dict(enumerate(expected)).items()
    assert starts(call_mode, name) == expected


def test_deleted_records_are_not_counted_again(call, one_broker, name):
    fill(one_broker, name)
    call("delete-records", name, "--before", "2", "--execute")
    call("delete-records", name, "--before", "1", "--execute")
    assert starts(call, name) == [2, 2]
    assert sorted(record.value for record in one_broker.records(name)) == [b"4", b"5", b"6"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere", "--before", "latest"], 1, "unknown topic 'nowhere'"),
        (["NAME:7", "--before", "latest"], 1, "has no partition 7"),
        (["NAME:x", "--before", "latest"], 2, "is not of the form TOPIC or TOPIC:0,1"),
        (["NAME", "--before", "soon"], 2, "'soon' is not a position"),
        (["NAME"], 2, "Missing option '--before'"),
        (["__consumer_offsets", "--before", "latest", "--execute"], 1, "__consumer_offsets"),
    ],
)
def test_an_error_is_one_line(call, name, arguments, code, message):
    call("topics", "create", name)
    called = call("delete-records", *(it.replace("NAME", name) for it in arguments), code=code)
    assert message in called.err
    assert called.err.count("\n") == 1
