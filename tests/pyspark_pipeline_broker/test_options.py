"""Options are those of Spark's Kafka source, in any case of letters; what has no effect is refused."""

from pathlib import Path

import pytest

from pyspark_pipeline_broker.options import ReadOptions
from pyspark_pipeline_broker.position import EARLIEST, LATEST, Position

TOPIC = {"path": "data", "subscribe": "t"}


def test_what_is_not_said_is_as_in_the_kafka_source_but_for_the_isolation_level():
    options = ReadOptions.read(TOPIC)

    assert options.stored == Path("data").absolute()
    assert (options.topics, options.partitions) == (("t",), None)
    assert (options.starting.offsets, options.ending.offsets) == (EARLIEST, LATEST)
    assert (options.is_committed, options.skips_gone, options.with_headers) == (True, False, False)
    assert ReadOptions.read(TOPIC, is_streaming=True).starting.offsets == LATEST


def test_names_of_options_are_of_any_case():
    said = {"PATH": "file:///a%20b", "SubScribe": " t , u", "includeheaders": "TRUE"}
    options = ReadOptions.read({**said, "Kafka.Isolation.Level": "read_uncommitted", "failondataloss": "false"})

    assert options.stored == Path("/a b")
    assert options.topics == ("t", "u")
    assert (options.is_committed, options.skips_gone, options.with_headers) == (False, True, True)


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({"subscribe": "events"}, ["events"]),
        ({"subscribePattern": "e.*s"}, ["events", "evs"]),
        ({"assign": '{"events": [1]}'}, ["events"]),
    ],
)
def test_topics_are_named_or_match_as_a_whole(said, names):
    options = ReadOptions.read({"path": "data", **said})
    assert [name for name in ("events", "evs", "other", "events2") if options.wants(name)] == names


def test_a_time_counts_before_offsets_and_one_for_all_before_one_for_each():
    said = {"startingOffsets": "latest", "startingOffsetsByTimestamp": '{"t": {"0": 5}}'}
    assert ReadOptions.read({**TOPIC, **said}).starting.times_ms == {("t", 0): 5}
    assert ReadOptions.read({**TOPIC, **said, "startingTimestamp": "7"}).starting == Position(
        times_ms=7, else_latest=False
    )
    assert ReadOptions.read({**TOPIC, "endingTimestamp": "7"}).ending == Position(times_ms=7)
    assert ReadOptions.read({**TOPIC, "startingOffsets": '{"t": {"0": -2}}'}).starting.offsets == {("t", 0): EARLIEST}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"path": "data"}, "say which topics"),
        ({**TOPIC, "assign": "{}"}, "say which topics"),
        ({"path": "data", "subscribe": " ,"}, "names no topic"),
        ({"path": "data", "assign": "[1]"}, "assign is not JSON like"),
        ({"path": "data", "subscribePattern": "("}, "no regular expression"),
        ({"subscribe": "t"}, "path is missing"),
        ({"path": "s3a://bucket/data", "subscribe": "t"}, "no directory that is mounted here"),
        ({**TOPIC, "maxOffsetsPerTrigger": "5"}, "unknown options: maxoffsetspertrigger; there are path, "),
        ({**TOPIC, "startingOffsets": "first"}, "startingOffsets is not JSON like"),
        ({**TOPIC, "startingTimestamp": "noon"}, "startingTimestamp is a number of milliseconds, not 'noon'"),
        ({**TOPIC, "includeHeaders": "yes"}, "includeHeaders is true or false, not 'yes'"),
        ({**TOPIC, "kafka.isolation.level": "x"}, "kafka.isolation.level is read_committed or read_uncommitted"),
    ],
)
def test_what_makes_no_sense_is_one_line(said, reason):
    with pytest.raises(ValueError, match="^(?s:.)*" + reason.replace("(", r"\(")) as caught:
        ReadOptions.read(said)
    assert "\n" not in str(caught.value)


def test_a_stream_has_no_end():
    with pytest.raises(ValueError, match="a stream has no end: endingOffsets"):
        ReadOptions.read({**TOPIC, "endingOffsets": "latest"}, is_streaming=True)
