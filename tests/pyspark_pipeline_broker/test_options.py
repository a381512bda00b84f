"""Read options are those of Spark's Kafka source, in upper or lower case; options without effect are refused."""

from pathlib import Path

import pytest

from pyspark_pipeline_broker.options import ReadOptions, has_headers, table_options
from pyspark_pipeline_broker.position import EARLIEST, LATEST

TOPIC = {"path": "data", "subscribe": "t"}


def test_defaults_are_those_of_the_kafka_source_except_the_isolation_level():
    options = ReadOptions.read(TOPIC)

    assert options.stored == Path("data").absolute()
    assert (options.topics.names, options.topics.partitions) == (("t",), None)
    assert (options.starting.offsets, options.ending.offsets) == (EARLIEST, LATEST)
    assert (options.is_committed, options.skips_gone, options.with_headers) == (True, False, False)
    assert (options.takes_filters, options.offsets_max) == (False, None)
    assert ReadOptions.read(TOPIC, is_streaming=True).starting.offsets == LATEST


def test_option_names_ignore_case():
    said = {"PATH": "file:///a%20b", "SubScribe": " t , u", "includeheaders": "TRUE", "PushDown": "true"}
    options = ReadOptions.read({**said, "Kafka.Isolation.Level": "read_uncommitted", "failondataloss": "false"})

    assert options.stored == Path("/a b")
    assert options.topics.names == ("t", "u")
    assert (options.is_committed, options.skips_gone, options.with_headers) == (False, True, True)
    assert options.takes_filters


def test_a_time_wins_over_offsets_and_one_for_all_over_one_per_partition():
    said = {"startingOffsets": "latest", "startingOffsetsByTimestamp": '{"t": {"0": 5}}'}
    assert ReadOptions.read({**TOPIC, **said}).starting.times_ms == {("t", 0): 5}
    for_all = ReadOptions.read({**TOPIC, **said, "startingTimestamp": " 7 "}).starting
    assert (for_all.option, for_all.times_ms, for_all.else_latest) == ("startingTimestamp", 7, False)
    assert ReadOptions.read({**TOPIC, "endingTimestamp": "7"}).ending.times_ms == 7
    assert ReadOptions.read({**TOPIC, "startingOffsets": '{"t": {"0": -2}}'}).starting.offsets == {("t", 0): EARLIEST}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"path": "data"}, "Set exactly one of assign"),
        ({"path": "data", "subscribe": " ,"}, "names no topic"),
        ({"subscribe": "t"}, "path is missing"),
        (
            {"path": "s3a://bucket/data", "subscribe": "t"},
            "path is not a directory of this machine: s3a://bucket/data. Mount it",
        ),
        ({**TOPIC, "minPartitions": "5"}, "unknown options: minpartitions. Known options: path, "),
        ({**TOPIC, "option.subscribe": "t"}, "unknown options: option.subscribe"),
        (
            {**TOPIC, "maxOffsetsPerTrigger": "5"},
            "a batch reads all records between its offsets. Remove maxOffsetsPerTrigger",
        ),
        ({**TOPIC, "startingOffsets": "first"}, "startingOffsets is not JSON like"),
        ({**TOPIC, "startingTimestamp": "noon"}, "startingTimestamp must be a number of milliseconds: 'noon'"),
        ({**TOPIC, "startingTimestamp": "1_000"}, "startingTimestamp must be a number of milliseconds: '1_000'"),
        ({**TOPIC, "includeHeaders": "yes"}, "includeHeaders must be true or false, not 'yes'"),
        ({**TOPIC, "kafka.isolation.level": "x"}, "kafka.isolation.level must be read_committed or read_uncommitted"),
        ({**TOPIC, "startingOffsets": "Latest"}, "startingOffsets cannot be latest (-1) in a batch"),
        ({**TOPIC, "startingOffsets": '{"t": {"0": 3, "1": -1}}'}, "startingOffsets cannot be latest (-1) in a batch"),
        ({**TOPIC, "endingOffsets": "earliest"}, "endingOffsets cannot be earliest (-2) in a batch"),
        ({**TOPIC, "endingOffsets": '{"t": {"0": -2}}'}, "endingOffsets cannot be earliest (-2) in a batch"),
    ],
)
def test_a_wrong_option_is_one_line(said, reason):
    with pytest.raises(ValueError, match="^(?s:.)*" + reason.replace("(", r"\(").replace(")", r"\)")) as caught:
        ReadOptions.read(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"endingOffsets": "latest"}, "a stream has no end. Remove endingOffsets"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger must be at least 1, not 0"),
        ({"maxOffsetsPerTrigger": "1e3"}, "maxOffsetsPerTrigger: '1e3' is not a 64-bit integer"),
    ],
)
def test_a_stream_has_no_end_and_a_positive_limit(said, reason):
    with pytest.raises(ValueError, match=reason):
        ReadOptions.read({**TOPIC, **said}, is_streaming=True)
    assert ReadOptions.read({**TOPIC, "maxOffsetsPerTrigger": "5"}, is_streaming=True).offsets_max == 5


def test_a_stream_may_begin_at_the_latest_offset_and_a_time_may_be_any():
    assert ReadOptions.read({**TOPIC, "startingOffsets": "latest"}, is_streaming=True).starting.offsets == LATEST
    assert ReadOptions.read({**TOPIC, "startingTimestamp": "-1"}).starting.times_ms == LATEST


def test_the_columns_do_not_depend_on_batch_or_stream():
    assert has_headers({**TOPIC, "includeHeaders": "true", "startingOffsets": "latest"})
    with pytest.raises(ValueError, match="unknown options: x"):
        has_headers({"x": "1"})


def test_the_options_of_a_table_are_separated_from_catalog_properties():
    catalog = {"provider": "pipeline-broker", "Owner": "root", "comment": "c", "colour": "red", "external": "true"}
    given = {**catalog, "location": "file:/a b%20c", "path": "file:/a b%20c", "option.subscribe": "t", "subscribe": "t"}
    assert table_options(given) == {"path": "/a b%20c", "subscribe": "t"}
    assert table_options({**catalog, "option.store": "s3://x", "location": "file:/w/t"}) == {"store": "s3://x"}
    assert table_options({"provider": "x", "subscribe": "t"}) is None
    with pytest.raises(ValueError, match=r"unknown options: startingoffset\."):
        ReadOptions.read(table_options({**given, "option.startingOffset": "latest"}))
