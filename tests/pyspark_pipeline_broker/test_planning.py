"""Reads of a data directory give every record once, from archive and journal, in tasks for other processes."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.inspect import journal_reader, stored_range
from pipeline_broker.inspect.errors import NoDataDirectoryError, RecordsGoneError, StoredDataError
from pipeline_broker.log.journal.clean_shutdown import mark_path
from pipeline_broker.log.journal.segment import HEADER_SPACE
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.state.metadata_records import topic_tombstone
from pyspark_pipeline_broker.bounds import Bounds
from tests import transactional_batches
from tests.inspect.data_directory import TOPIC_ID, Data, archived
from tests.pyspark_pipeline_broker.stored_rows import offsets, planned, rows, rows_of


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Archived segments, one that is also in the journal, and some only in the journal; 124 records."""
    path = tmp_path_factory.mktemp("archived")
    archived(path, segments=3).close()
    return path


def test_every_record_is_read_once_in_order_archived_or_not(directory):
    found = rows(directory, subscribe="events")

    for partition in (0, 1):
        there = offsets(found, partition)
        assert there == list(range(len(there)))
    assert len(found) == 2 * (40 + 8 + 10 + 4 + 3)
    assert {row["value"] for row in found} == {b"long" * 300, b"value", b"second"}
    assert {row["key"] for row in found} == {b"key", None}


def test_a_record_has_the_columns_of_the_kafka_source(directory):
    row = rows(directory, subscribe="events")[0]

    assert row == {
        "key": b"key",
        "value": b"long" * 300,
        "topic": "events",
        "partition": 0,
        "offset": 0,
        "timestamp": datetime.fromtimestamp(0, UTC),
        "timestampType": 0,
    }


def test_each_file_of_a_partition_has_a_task(directory):
    _, ranges = planned(directory, subscribe="events")
    first = [stored for stored in ranges if stored.partition == 0]

    assert [stored.archived is not None for stored in first] == [True, True, False, False]
    assert [stored.first_offset for stored in first[1:]] == [stored.end_offset for stored in first[:-1]]


@given(st.data())
def test_any_offsets_give_the_records_in_between(directory, data):
    start = data.draw(st.integers(0, 65), label="start")
    end = data.draw(st.integers(start, 65), label="end")
    bounds = data.draw(
        st.builds(Bounds, first_offset=st.none() | st.integers(-5, 70), end_offset=st.none() | st.integers(-5, 70)),
        label="bounds",
    )
    texts = {name: f'{{"events": {{"0": {offset}}}}}' for name, offset in (("starting", start), ("ending", end))}
    found = rows(
        directory, bounds, assign='{"events": [0]}', startingOffsets=texts["starting"], endingOffsets=texts["ending"]
    )

    first = start if bounds.first_offset is None else max(start, bounds.first_offset)
    last = end if bounds.end_offset is None else min(end, bounds.end_offset)
    assert offsets(found) == list(range(first, last))


@settings(max_examples=30)
@given(commits=st.lists(st.sampled_from(["write", "write", "write", "seal", "archive"]), max_size=20))
def test_any_order_of_writing_and_archiving_gives_all_records(tmp_path_factory, commits):
    data = Data(tmp_path_factory.mktemp("any"), roll_bytes=600)
    written = 0
    for step in commits:
        if step == "write":
            data.fill(1, b"value" * 20, start=written)
            written += 1
        elif step == "seal":
            data.journal.seal()
        else:
            data.archive_one()
    data.close()

    found = rows(data.directory, subscribe="events")
    for partition in (0, 1):
        batches = (written + 1 - partition) // 2
        assert offsets(found, partition) == list(range(2 * batches))


def test_records_since_a_time_are_found_as_a_consumer_finds_them_and_older_files_are_not_read(directory):
    found = rows(directory, subscribe="events", startingTimestamp="118")
    assert {row["value"] for row in found} == {b"value", b"second"}
    assert min(row["timestamp"] for row in found) == datetime.fromtimestamp(0.118, UTC)
    before = rows(directory, subscribe="events", endingTimestamp="118")
    every = rows(directory, subscribe="events")
    assert [offsets(before, it) + offsets(found, it) for it in (0, 1)] == [offsets(every, it) for it in (0, 1)]
    _, every = planned(directory, subscribe="events")
    _, since = planned(directory, Bounds(since_ms=118), subscribe="events")
    assert 0 < len(since) < len(every)
    with pytest.raises(ValueError, match="has no record since the time 5000"):
        rows(directory, subscribe="events", startingTimestamp="5000")
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert rows(directory, subscribe="events", startingTimestamp="5000", **latest) == []


def test_records_archived_between_planning_and_reading_are_read_from_the_archive(tmp_path):
    data = Data(tmp_path)
    data.fill(20, b"value" * 40)
    data.journal.prepare_ahead()
    data.journal.seal()
    data.fill(4, start=20)
    options, ranges = planned(tmp_path, subscribe="events")
    assert all(stored.archived is None for stored in ranges)
    while data.archive_one():
        pass

    found = rows_of(options, ranges)
    assert offsets(found, 0) == offsets(found, 1) == list(range(24))
    data.close()


def test_records_archived_during_reading_are_not_read_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_range, "BYTES_PER_READ", 1)  # a batch at a time
    data = Data(tmp_path)
    data.fill(12)
    options, ranges = planned(tmp_path, assign='{"events": [0]}')
    (stored,) = ranges
    reading = stored.read(options.stored)
    found = [next(reading), next(reading)]
    data.archive_all()
    data.journal.prepare_ahead()
    data.fill(12, start=12)  # into the same space
    data.journal.seal()
    data.fill(2, start=24)
    found += reading
    assert [(batches.offset, batches.end_offset) for batches in found] == [
        (start, start + 2) for start in range(0, 12, 2)
    ]
    data.close()


def test_moved_files_are_searched_as_long_as_reading_makes_progress(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_range, "BYTES_PER_READ", 1)  # a batch at a time
    data = Data(tmp_path)
    data.fill(12)
    options, ranges = planned(tmp_path, assign='{"events": [0]}')
    data.close()
    reads, original = [], PartitionLog.read

    def moved(log, offset, size_bytes_max, **more):
        reads.append(offset)
        if reads.count(offset) < stored_range.READS_MAX:
            raise FileNotFoundError("moved")
        return original(log, offset, size_bytes_max, **more)

    monkeypatch.setattr(PartitionLog, "read", moved)
    assert offsets(rows_of(options, ranges)) == list(range(12))
    assert reads == [offset for offset in range(0, 12, 2) for _ in range(stored_range.READS_MAX)]


def test_a_missing_file_is_an_error_after_a_few_attempts(tmp_path, monkeypatch):
    data = Data(tmp_path)
    data.fill(12)
    options, ranges = planned(tmp_path, assign='{"events": [0]}')
    data.close()
    reads = []

    def gone(_log, offset, _size_bytes_max, **_more):
        reads.append(offset)
        raise FileNotFoundError("gone")

    monkeypatch.setattr(PartitionLog, "read", gone)
    with pytest.raises(StoredDataError, match="gone"):
        rows_of(options, ranges)
    assert reads == [0] * stored_range.READS_MAX


def test_a_segment_that_is_taken_back_while_the_journal_is_read_leaves_each_record_once(tmp_path, monkeypatch):
    data = archived(tmp_path, segments=3)
    original, opened = journal_reader.open_segment, []

    def late(files, directory, number):
        opened.append(number)
        if len(opened) == 2:
            while data.archive_one():
                pass
        return original(files, directory, number)

    monkeypatch.setattr(journal_reader, "open_segment", late)
    found = rows(tmp_path, subscribe="events")
    for partition in (0, 1):
        there = offsets(found, partition)
        assert there == list(range(len(there)))
    assert len(found) == 2 * (40 + 8 + 10 + 4 + 3)
    data.close()


def test_a_file_with_older_last_records_is_read_for_its_newer_ones(tmp_path):
    data = Data(tmp_path)
    for timestamp in (100, 5, 200, 5):
        data.write(data.logs[0], [NewRecord(b"value", None, timestamp)])
    data.close()
    found = rows(tmp_path, Bounds(since_ms=100), subscribe="events")
    assert {0, 2} <= set(offsets(found))


def test_records_deleted_between_planning_and_reading_are_an_error_unless_allowed(tmp_path):
    data = Data(tmp_path)
    data.fill(20)
    options, ranges = planned(tmp_path, subscribe="events")
    lenient, _ = planned(tmp_path, subscribe="events", failOnDataLoss="false")
    data.archive_all()
    data.note_deleted(0, 6)

    with pytest.raises(RecordsGoneError, match="records of events-0, offset 0 and later, were deleted"):
        rows_of(options, ranges)
    assert offsets(rows_of(lenient, ranges)) == list(range(6, 20))
    data.close()


def test_a_damaged_segment_of_the_archive_is_refused(tmp_path):
    data = archived(tmp_path)
    data.close()
    (segment,) = tmp_path.glob("archive/events-0/00000000000000000000.log")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    with pytest.raises(StoredDataError, match="checksum"):
        rows(tmp_path, subscribe="events")


def test_a_damaged_journal_is_refused(tmp_path):
    data = Data(tmp_path)
    data.fill(6)
    data.close()
    (journal,) = tmp_path.glob("journal/0*")
    content = bytearray(journal.read_bytes())
    content[HEADER_SPACE + 60] ^= 1
    journal.write_bytes(content)
    with pytest.raises(StoredDataError, match="durable"):
        rows(tmp_path, subscribe="events")


def test_a_torn_end_is_ignored_and_is_damage_after_a_clean_shutdown(tmp_path):
    data = Data(tmp_path)
    data.fill(6)
    data.close()
    (journal,) = tmp_path.glob("journal/0*")
    journal.write_bytes(journal.read_bytes()[:-60])
    with pytest.raises(StoredDataError, match="at the clean shutdown, the journal ended with LSN 6"):
        rows(tmp_path, subscribe="events")

    mark_path(tmp_path).unlink()
    assert offsets(rows(tmp_path, subscribe="events"), 1) == [0, 1, 2, 3]


def test_deleted_records_are_skipped_and_an_error_if_requested(tmp_path):
    data = Data(tmp_path)
    data.fill(10)
    data.note_deleted(0, 4)
    data.close()

    found = rows(tmp_path, subscribe="events")
    assert (offsets(found, 0), offsets(found, 1)) == (list(range(4, 10)), list(range(10)))
    wanted = {"assign": '{"events": [0]}', "startingOffsets": '{"events": {"0": 1}}'}
    with pytest.raises(RecordsGoneError, match="offset 1 of events-0 does not exist; the partition has offsets 4 to 9"):
        rows(tmp_path, **wanted)
    assert offsets(rows(tmp_path, **wanted, failOnDataLoss="false")) == list(range(4, 10))


def test_a_recreated_topic_has_only_its_new_records(tmp_path):
    data = Data(tmp_path)
    data.fill(10)
    tombstone = topic_tombstone("events")
    data.write(data.metadata, [NewRecord(tombstone.value, tombstone.key)])
    with pytest.raises(NoDataDirectoryError, match="has no topic events"):
        rows(tmp_path, subscribe="events")
    assert rows(tmp_path, subscribePattern="e.*") == []

    data.note_topic("events", bytes(reversed(TOPIC_ID)), partitions=3)
    assert rows(tmp_path, subscribe="events") == []
    data.close()


def test_transactions_are_shown_as_a_reader_of_committed_records_sees_them(tmp_path):
    data = Data(tmp_path)
    data.write_in_transaction(1, ends_with=True)
    data.write_in_transaction(2, ends_with=False)
    data.archive_all()
    data.write_in_transaction(3, ends_with=False)
    data.write_in_transaction(4, ends_with=True)
    data.write_in_transaction(5)
    data.fill(2)
    data.close()

    assert offsets(rows(tmp_path, subscribe="events")) == [0, 6]
    every = rows(tmp_path, subscribe="events", kafka__isolation__level="read_uncommitted")
    assert offsets(every) == [0, 2, 4, 6, 8, 9, 10]


def test_an_aborted_transaction_is_hidden_in_every_read_that_it_spans(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_range, "BYTES_PER_READ", 1)  # a batch at a time
    data = Data(tmp_path)
    producer = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
    for sequence in range(2):
        batch = build_batch([NewRecord(b"value", None, 1)], base_sequence=sequence, **producer)
        entry = transactional_batches.produce(data.logs[0], batch, 0).entry
        data.journal.sync(data.journal.write([entry]))
        data.manager.on_durable([entry])
        data.fill(1, start=2 + 2 * sequence)
    marker = data.logs[0].append_marker(1, 1, committed=False, coordinator_epoch=3, now_ms=2, version=2).entry
    data.journal.sync(data.journal.write([marker]))
    data.manager.on_durable([marker])
    data.close()
    assert offsets(rows(tmp_path, subscribe="events")) == [1, 2, 4, 5]


def test_another_directory_a_missing_topic_and_a_missing_partition_are_one_line(tmp_path, directory):
    with pytest.raises(NoDataDirectoryError, match="is not a data directory"):
        rows(tmp_path, subscribe="events")
    with pytest.raises(NoDataDirectoryError, match="has no topic nothing, other"):
        rows(directory, subscribe="other,events,nothing")
    with pytest.raises(NoDataDirectoryError, match="has no partition 7 of topic events"):
        rows(directory, assign='{"events": [0, 7]}')


def test_a_batch_that_starts_after_its_end_is_refused(directory):
    one = {"assign": '{"events": [0]}'}
    text = '{"events": {"0": %s}}'
    with pytest.raises(ValueError, match="from offset 8 to 3: startingOffsets is after endingOffsets"):
        rows(directory, **one, startingOffsets=text % 8, endingOffsets=text % 3, failOnDataLoss="false")
    with pytest.raises(ValueError, match="startingTimestamp is after endingOffsetsByTimestamp"):
        rows(directory, **one, startingTimestamp="118", endingOffsetsByTimestamp=text % 20)
    with pytest.raises(RecordsGoneError, match="startingOffsets: offset 99 of events-0 does not exist"):
        rows(directory, **one, startingOffsets=text % 99)
    assert rows(directory, **one, startingOffsets=text % 99, failOnDataLoss="false") == []
    assert rows(directory, **one, startingOffsets=text % 5, endingOffsets=text % 5) == []
    assert rows(directory, **one, startingTimestamp="-1") == []
    assert len(rows(directory, **one, startingTimestamp="-2")) == len(rows(directory, **one))


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets", "startingOffsetsByTimestamp"])
def test_a_batch_names_exactly_its_partitions(directory, option):
    for text, reason in (
        ('{"events": {"0": 0}}', "lacks events-1"),
        ('{"events": {"0": 0, "1": 0, "2": 0}}', "names events-2, which is not read"),
        ('{"events": {"0": 0, "1": 0}, "other": {"0": 0}}', "names other-0, which is not read"),
    ):
        with pytest.raises(ValueError, match=f"^{option} {reason}"):
            rows(directory, subscribe="events", **{option: text})


def test_the_error_for_an_empty_log_mentions_no_records(tmp_path):
    Data(tmp_path).close()
    with pytest.raises(RecordsGoneError, match="offset 5 of events-0 does not exist; the partition has no records"):
        rows(tmp_path, subscribe="events", startingOffsets='{"events": {"0": 5, "1": 0}}')
