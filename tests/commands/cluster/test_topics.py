"""`pipeline-broker topics` against a broker."""

import pytest


def test_a_topic_is_created_described_altered_and_deleted(call_mode, name):
    assert (
        call_mode("topics", "create", name, "--partitions", 3, "--config", "retention.ms=5000").out
        == f"created {name}\n"
    )
    (topic,) = call_mode("topics", "describe", name, "--json").json
    assert (topic["topic"], topic["configs"], topic["replication_factor"]) == (name, {"retention.ms": "5000"}, 1)
    assert topic["partitions"][2] == {
        "partition": 2, "leader": 1, "replicas": [1], "isr": [1], "offline": [], "start": 0, "end": 0,
    }  # fmt: skip
    call_mode(
        "topics",
        "alter",
        name,
        "--partitions",
        5,
        "--config",
        "max.message.bytes=9999",
        "--delete-config",
        "retention.ms",
    )
    (topic,) = call_mode("topics", "describe", name, "--json").json
    assert (len(topic["partitions"]), topic["configs"]) == (5, {"max.message.bytes": "9999"})
    assert call_mode("topics", "delete", name).out == f"deleted {name}\n"
    assert name not in call_mode("topics", "list").lines


def test_without_a_number_a_topic_has_the_default_number_of_partitions(call, name):
    assert call("topics", "create", name, "--json").json == {"topic": name, "created": True}
    (topic,) = call("topics", "describe", name, "--json").json
    assert len(topic["partitions"]) == 2


def test_a_list_is_filtered_by_patterns(call, name):
    for end in ("-a", "-b", "-ab"):
        call("topics", "create", name + end)
    assert call("topics", "list", f"{name}-a*", f"{name}-b").lines == [f"{name}-a", f"{name}-ab", f"{name}-b"]
    rows = call("topics", "list", f"{name}-a", "--json").json
    assert [(row["topic"], row["partitions"], row["internal"]) for row in rows] == [(f"{name}-a", 2, False)]
    heading, line = call("topics", "list", f"{name}-a", "--long").lines
    assert heading.split() == ["TOPIC", "PARTITIONS", "REPLICATION-FACTOR", "ID"]
    assert line.split()[:3] == [f"{name}-a", "2", "1"]


def test_internal_topics_are_listed_on_request(call, name):
    call("produce", name, data=b"x\n")
    call("consume", name, "--group", name)
    assert "__consumer_offsets" not in call("topics", "list").lines
    assert "__consumer_offsets" in call("topics", "list", "--internal").lines


def test_a_description_for_people_has_a_heading_and_a_line_for_each_partition(call, name):
    call("topics", "create", name, "--config", "retention.ms=7000")
    call("produce", name, "--partition", 1, data=b"x\ny\n")
    heading, columns, *partitions = call("topics", "describe", name).lines
    assert heading.endswith(": 2 partitions, replication factor 1, retention.ms=7000")
    assert columns.split() == ["PARTITION", "LEADER", "REPLICAS", "ISR", "START", "END"]
    assert [line.split() for line in partitions] == [["0", "1", "1", "1", "0", "0"], ["1", "1", "1", "1", "0", "2"]]


def test_if_exists_and_if_not_exists_ignore_the_error(call, name):
    assert call("topics", "delete", name, "--if-exists", "--json").json == [{"topic": name, "deleted": False}]
    call("topics", "create", name)
    assert call("topics", "create", name, "--if-not-exists").out == f"{name} exists\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["describe", "nowhere"], 1, "unknown topic 'nowhere': see `topics list`"),
        (["delete", "nowhere"], 1, "unknown topic 'nowhere'"),
        (["alter", "nowhere", "--partitions", "9"], 1, "unknown topic 'nowhere'"),
        (["alter", "nowhere"], 2, "nothing to change"),
        (["create", "a b"], 1, "(INVALID_TOPIC_EXCEPTION)"),
        (["create", "x", "--config", "nope=1"], 1, "nope (INVALID_CONFIG)"),
        (["create", "x", "--config", "nope"], 2, "expected NAME=VALUE, such as cleanup.policy=compact"),
        (["create", "x", "--replication-factor", "2"], 1, "(INVALID_REPLICATION_FACTOR)"),
        (["creat", "x"], 2, "unknown command 'creat' for topics"),
        (["create"], 2, "Missing argument 'TOPIC'"),
    ],
)
def test_an_error_is_one_line(call, arguments, code, message):
    called = call("topics", *arguments, code=code)
    assert called.err.startswith("Error: ")
    assert message in called.err
    assert (called.err.count("\n"), called.out) == (1, "")
