"""The check of a history sees each kind of lie, and nothing in the truth."""

import attrs
import pytest

from tests.crashes.history import Contents, History, Register, TopicFate, violations

PARTITION = "topic", 0
TOPIC_ID = b"i" * 16


@pytest.fixture
def told():
    """A history of two producers, a reader, a topic, an id and a commit, and the contents that agree with it."""
    history = History()
    first, second = history.stream("plain", PARTITION), history.stream("plain", PARTITION)
    values = [first.draw(b"a")[1], second.draw(b"b")[1], first.draw(b"c")[1], second.draw(b"d")[1]]
    first.acknowledged = {0: 0, 1: 2}
    history.seen[PARTITION] = {1: values[1]}
    history.topics["topic"] = TopicFate(1, topic_id=TOPIC_ID, created=True)
    history.topics["gone"] = TopicFate(1, deletion_sent=True, deleted=True)
    history.producer_ids = [1, 2]
    register = history.commits["group", "topic", 0] = Register(None)
    register.send(10)
    register.acknowledge()
    register.send(20)
    contents = Contents(
        records={PARTITION: list(enumerate(values[:3]))},
        high_watermarks={PARTITION: 3},
        topics={"topic": (TOPIC_ID, 1)},
        message_bytes_max={"topic": None},
        offsets={("group", "topic", 0): 10},
    )
    return history, contents


def test_the_truth_is_accepted_with_and_without_what_is_unknown(told):
    history, contents = told
    assert violations(history, history.snapshot(), contents) == []
    records = [*contents.records[PARTITION], (3, history.streams[1].values[1])]
    more = attrs.evolve(
        contents,
        records={PARTITION: records},
        high_watermarks={PARTITION: 4},
        offsets={("group", "topic", 0): 20},
    )
    assert violations(history, history.snapshot(), more) == []


def lost(records):
    del records[2:]


def replaced(records):
    records[2] = (2, records[2][1] + b"!")


def twice(records):
    records.append((3, records[0][1]))


def shifted(records):
    records[2] = (3, records[2][1])


def swapped(records):
    records[0], records[2] = (0, records[2][1]), (2, records[0][1])


@pytest.mark.parametrize(
    ("lie", "text"),
    [
        (lost, "acknowledged at offset 2, which is not there"),
        (replaced, "nobody sent"),
        (twice, "is there twice"),
        (shifted, "have gaps"),
        (swapped, "not a beginning in order"),
    ],
)
def test_a_lie_about_records_is_seen(told, lie, text):
    history, contents = told
    lie(contents.records[PARTITION])
    assert text in "\n".join(violations(history, history.snapshot(), contents))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"high_watermarks": {PARTITION: 2}}, "the high watermark is not above"),
        ({"topics": {}}, "was created, and it is gone"),
        ({"topics": {"topic": (b"j" * 16, 1)}}, "topic topic was"),
        ({"topics": {"topic": (TOPIC_ID, 2)}}, "a half topic"),
        ({"topics": {"topic": (TOPIC_ID, 1), "gone": (TOPIC_ID, 1)}}, "was deleted, and it is back"),
        ({"message_bytes_max": {"topic": "5"}}, "max.message.bytes is 5"),
        ({"offsets": {("group", "topic", 0): None}}, "the committed offset is None"),
    ],
)
def test_a_lie_about_the_rest_is_seen(told, changes, text):
    history, contents = told
    assert text in "\n".join(violations(history, history.snapshot(), attrs.evolve(contents, **changes)))


def test_what_a_reader_saw_must_stay(told):
    history, contents = told
    history.streams[0].acknowledged.clear()
    history.seen[PARTITION][3] = history.streams[1].values[1]
    assert "a reader saw" in "\n".join(violations(history, history.snapshot(), contents))


def test_an_id_that_two_producers_got_and_a_refusal_are_seen(told):
    history, contents = told
    history.producer_ids.append(1)
    history.complaints.append("refused")
    assert violations(history, history.snapshot(), contents) == ["an id of a producer was given out twice", "refused"]
