"""A stream reads the records between two offsets, or reports possible data loss; `failOnDataLoss=false` continues."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.inspect.errors import NoDataDirectoryError, RecordsGoneError
from pipeline_broker.records.batch import NewRecord
from pipeline_broker.state.metadata_records import topic_tombstone
from pyspark_pipeline_broker.options import ReadOptions
from pyspark_pipeline_broker.planning import initial_offsets, latest_offsets, limited, stream_ranges
from tests.crashes.lengths import examples
from tests.inspect.data_directory import TOPIC_ID, Data
from tests.pyspark_pipeline_broker.stored_rows import offsets, rows_of

OTHER_ID = bytes(reversed(TOPIC_ID))


@pytest.fixture
def data(tmp_path):
    data = Data(tmp_path)
    data.fill(6)
    yield data
    data.close()


def options(data, **more):
    said = {"path": str(data.directory), "subscribe": "events", "startingOffsets": "earliest", **more}
    return ReadOptions.read(said, is_streaming=True)


def by_pattern(data, **more):
    said = {"path": str(data.directory), "subscribePattern": "s", "startingOffsets": "earliest", **more}
    return ReadOptions.read(said, is_streaming=True)


def read(start, end, read_options):
    return rows_of(read_options, stream_ranges(read_options, start, end))


def delete_topic(data):
    tombstone = topic_tombstone("events")
    data.write(data.metadata, [NewRecord(tombstone.value, tombstone.key)])


def make_again(data, batches):
    delete_topic(data)
    data.manager.delete("events")
    data.note_topic("events", OTHER_ID)
    data.logs = data.manager.create("events", OTHER_ID, 2)
    data.fill(batches)


def at(first, second=None):
    return {"events": {"0": first} | ({} if second is None else {"1": second})}


def test_records_between_two_offsets_are_read_once(data):
    start = initial_offsets(options(data))
    assert start == at(0, 0)
    end = latest_offsets(options(data))
    assert end == at(6, 6)
    data.fill(2, start=6)
    assert offsets(read(start, end, options(data))) == list(range(6))
    assert offsets(read(end, latest_offsets(options(data)), options(data))) == [6, 7]
    assert read(end, end, options(data)) == []


@pytest.mark.parametrize("batches", [0, 2])
def test_a_recreated_topic_with_fewer_records_is_an_error(data, batches):
    make_again(data, batches)
    end = latest_offsets(options(data))
    assert end == at(batches, batches)
    with pytest.raises(RecordsGoneError, match=f"events-0 ends at offset {batches}, before offset 6.*recreated"):
        read(at(6, 6), end, options(data))
    assert read(at(6, 6), end, options(data, failOnDataLoss="false")) == []
    data.fill(8, start=batches)
    later = latest_offsets(options(data))
    assert offsets(read(end, later, options(data))) == list(range(batches, batches + 8))


def test_a_topic_that_is_recreated_between_planning_and_reading_is_an_error(data):
    make_again(data, 2)
    with pytest.raises(RecordsGoneError, match="events-0 ends at offset 2, before offset 6"):
        read(at(1, 1), at(6, 6), options(data))
    assert offsets(read(at(1, 1), at(6, 6), options(data, failOnDataLoss="false"))) == [1]


def test_a_deleted_topic_of_a_pattern_is_an_error(data):
    data.note_topic("others", OTHER_ID, 1)
    start = latest_offsets(by_pattern(data))
    assert start == {**at(6, 6), "others": {"0": 0}}
    delete_topic(data)
    end = latest_offsets(by_pattern(data))
    assert end == {"others": {"0": 0}}
    with pytest.raises(RecordsGoneError, match=r"events-[01] was deleted; it was read up to offset 6"):
        read(start, end, by_pattern(data))
    assert read(start, end, by_pattern(data, failOnDataLoss="false")) == []
    with pytest.raises(RecordsGoneError, match="events-0 was deleted; it would be read up to offset 6"):
        read(at(5, 5), at(6, 6), by_pattern(data))
    with pytest.raises(NoDataDirectoryError, match="has no topic events"):
        latest_offsets(options(data))


def test_a_new_partition_is_read_from_its_beginning_which_must_be_offset_0(data):
    assert offsets(read({}, at(6, 6), options(data))) == list(range(6))
    assert offsets(read(at(6), at(6, 6), options(data)), 1) == list(range(6))
    data.note_deleted(1, 2)
    with pytest.raises(RecordsGoneError, match="events-1 is new, but starts at offset 2 instead of 0"):
        read(at(6), at(6, 6), options(data))
    assert offsets(read(at(6), at(6, 6), options(data, failOnDataLoss="false")), 1) == [2, 3, 4, 5]


def test_records_deleted_before_reading_are_an_error(data):
    data.note_deleted(0, 4)
    with pytest.raises(RecordsGoneError, match="records 1 to 3 of events-0 were deleted"):
        read(at(1, 6), at(6, 6), options(data))
    with pytest.raises(RecordsGoneError, match="records 1 to 2 of events-0 were deleted"):
        read(at(1, 6), at(3, 6), options(data))
    assert offsets(read(at(1, 6), at(6, 6), options(data, failOnDataLoss="false"))) == [4, 5]
    assert offsets(read(at(4, 6), at(6, 6), options(data))) == [4, 5]
    assert read(at(3, 6), at(3, 6), options(data)) == []


def test_a_stream_that_starts_after_the_end_is_an_error_at_once_and_later(data):
    late = options(data, startingOffsets='{"events": {"0": 9, "1": 0}}')
    with pytest.raises(
        RecordsGoneError, match="startingOffsets: offset 9 of events-0 does not exist; the partition has offsets 0 to 5"
    ):
        initial_offsets(late)
    with pytest.raises(
        RecordsGoneError, match=r"before offset 9, which the stream had reached.*started after the partition's end"
    ):
        read(at(9, 0), at(6, 6), late)
    data.fill(8, start=6)
    with pytest.raises(RecordsGoneError, match="events-0 ends at offset 6, before offset 9"):
        read(at(9, 0), at(6, 6), late)  # what Spark asks for when it does the first batch again
    assert initial_offsets(late) == at(9, 0)


def test_a_start_names_all_partitions_and_no_others(data):
    for given_offsets, reason in (
        ('{"events": {"0": 0}}', "lacks events-1; -1 is the latest offset"),
        ('{"events": {"0": 0, "1": 0, "7": 0}, "x": {"0": 1}}', "names events-7, x-0, which is not read"),
    ):
        with pytest.raises(ValueError, match=f"startingOffsets {reason}"):
            initial_offsets(options(data, startingOffsets=given_offsets))


counts = st.dictionaries(st.sampled_from(["0", "1"]), st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1)


@settings(max_examples=examples(60))
@given(counts, st.integers(1, 14), st.booleans())
def test_a_limit_takes_a_share_of_each_partition_and_reaches_the_end(tmp_path_factory, drawn, offsets_max, is_new):
    ends = {partition: max(pair) for partition, pair in drawn.items()}
    start = {"events": {partition: min(pair) for partition, pair in drawn.items()}}
    end = {"events": ends}
    if is_new:
        directory = tmp_path_factory.mktemp("new")
        Data(directory).close()
        start = {}
        read_options = ReadOptions.read({"path": str(directory), "subscribe": "events"}, is_streaming=True)
    else:
        read_options = None  # nothing is looked up
    steps = 0
    while start != end:
        before = {partition: start.get("events", {}).get(partition, 0) for partition in ends}
        start = limited(read_options, start, end, offsets_max)
        taken = {partition: start["events"][partition] - before[partition] for partition in ends}
        left = {partition: ends[partition] - before[partition] for partition in ends}
        assert all(0 <= taken[it] <= left[it] and (taken[it] > 0) == (left[it] > 0) for it in ends)
        assert sum(taken.values()) <= max(offsets_max, len(ends))
        steps += 1
        assert steps <= 14


def test_a_limit_keeps_an_end_before_the_start():
    assert limited(None, at(9, 0), at(3, 10), 5) == at(3, 5)
