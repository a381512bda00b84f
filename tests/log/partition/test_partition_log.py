"""Offsets, visibility, duplicates, reading and search by timestamp.

Longer than most files: all tests use one log.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.archive.archived_log import ArchivedLog
from pipeline_broker.log.archive.local.local_store import LocalStore
from pipeline_broker.log.archive.manifest import PartitionManifest
from pipeline_broker.log.archive.segment_reader import SegmentReader
from pipeline_broker.log.errors import InvalidProducerEpoch, JournalCorrupt, OffsetOutOfRange, OutOfOrderSequence
from pipeline_broker.log.journal.frame import JOIN_BELOW_BYTES
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.partition.time_search import SEARCHED_AT_ONCE_MAX
from pipeline_broker.log.producers.producer_state import GAPS_REMEMBERED, ProducerStates
from pipeline_broker.log.read_result import BATCHES_PER_READ, ColdRead, ReadResult
from pipeline_broker.records.batch import NewRecord, assembled, build_batch, iterate_batches, read_header
from pipeline_broker.records.check import BatchCheck, LongBatchError, Rules
from pipeline_broker.records.compression import Compression
from pipeline_broker.records.errors import BatchTooLarge, CorruptRecord, RecordError
from pipeline_broker.records.recompression import Target
from pipeline_broker.records.record import iterate_records
from tests.files.memory_file_system import MemoryFileSystem

NOW = 1_000_000
TOPIC_ID = bytes(range(16))


def test_a_batch_that_takes_long_to_store_raises_long_batch_error():
    """A batch in another codec than the topic's, or a large one that is to be compressed; others are stored at once."""
    setting = Setting(rules=Rules(compression=Target(Compression.GZIP)))
    for batch in (batch_of(NOW, compression=Compression.ZSTD), batch_of(NOW, value=bytes(1_000_000))):
        with pytest.raises(LongBatchError):
            setting.log.produce(batch, NOW)
    for codec in (Compression.NONE, Compression.GZIP):
        setting.commit(setting.log.produce(batch_of(NOW, compression=codec), NOW))
    assert setting.log.high_watermark == 2


class Setting:
    """A broker's log with one topic of two partitions, and the way back after a kill."""

    def __init__(self, files=None, cache=1 << 20, rules=None):
        self.files = files or MemoryFileSystem()
        self.journal = Journal.open(Path("/d"), files=self.files)
        self.manager = LogManager(self.journal, cache)
        self.logs = self.manager.create("topic", TOPIC_ID, 2, rules or Rules())
        self.log = self.logs[0]
        self.manager.recover(lambda *_: None, NOW)

    def commit(self, *appended):
        entries = [it.entry for it in appended if it.entry is not None]
        self.journal.sync(self.journal.write(entries))
        self.manager.on_durable(entries)

    def produce(self, *timestamps, log=None, **options):
        """Append a batch as `apis.produce` does, in steps if requested."""
        log, batch = log or self.log, batch_of(*timestamps, **options)
        try:
            return log.produce(batch, NOW)
        except LongBatchError as error:
            check = BatchCheck(error, NOW, log.rules)
        try:
            check.open()
            for _ in check.steps():
                pass
            return log.append_checked(*check.stored(), NOW, starts_at_zero=False)
        except RecordError:
            log.refuse(batch)
            raise

    def restart(self, **options):
        self.files.kill()
        return Setting(self.files, **options)


def batch_of(*timestamps, value=b"value", **options):
    return build_batch([NewRecord(value, timestamp=timestamp) for timestamp in timestamps], **options)


def records_of(parts):
    for header, batch in iterate_batches(b"".join(parts)):
        yield from iterate_records(batch, header)


def resolved(result):
    return result() if isinstance(result, ColdRead) else result


def test_offsets_follow_each_other_and_become_visible_when_durable():
    it = Setting()
    first, second = it.produce(1, 2, 3), it.produce(4)

    assert [(a.base_offset, a.last_offset) for a in (first, second)] == [(0, 2), (3, 3)]
    assert [(a.duplicate, a.in_flight) for a in (first, second)] == [(False, True)] * 2
    assert (it.log.log_end_offset, it.log.high_watermark) == (4, 0)
    assert it.log.read(0, 1000, at_least_one=True).parts == []

    it.commit(first)
    assert it.log.high_watermark == 3
    it.commit(second)
    assert [record.offset for record in records_of(it.log.read(0, 1000, at_least_one=True).parts)] == [0, 1, 2, 3]


def test_commits_of_a_partition_complete_in_order():
    it = Setting()
    entries = [it.produce(1).entry for _ in range(2)]
    it.journal.write(entries)
    it.log.on_durable(entries[1])

    with pytest.raises(AssertionError):
        it.log.on_durable(entries[0])


@pytest.mark.parametrize("cache", [1 << 20, 0], ids=["in memory", "on disk"])
def test_a_read_too_small_for_the_first_batch_is_empty(cache):
    it = Setting(cache=cache)
    it.commit(it.produce(1, 2))
    assert it.log.read(0, 10, at_least_one=False) == ReadResult()


def test_a_read_after_the_last_archived_segment_is_empty():
    log = Setting().log
    manifest = PartitionManifest(log.folder, end_offset=5)
    log.attach(ArchivedLog(SegmentReader(LocalStore(MemoryFileSystem(), Path("/d"))), manifest), ProducerStates())
    assert (log.log_start_offset, log.high_watermark) == (0, 5)
    assert log.read(3, 1000, at_least_one=True) == ReadResult()


@pytest.mark.parametrize("offset", [-1, 3, 100])
def test_an_offset_outside_the_log_is_out_of_range(offset):
    it = Setting()
    it.commit(it.produce(1, 2))

    with pytest.raises(OffsetOutOfRange):
        it.log.read(offset, 100, at_least_one=True)


def test_a_large_batch_is_not_copied_until_it_is_read():
    it = Setting()
    batch = memoryview(batch_of(1, value=bytes(JOIN_BELOW_BYTES)))
    appended = it.log.produce(batch, NOW)
    it.commit(appended)

    parts = it.log.read(0, 1, at_least_one=True).parts

    assert any(isinstance(part, memoryview) and part.obj is batch.obj for part in parts)


def test_a_small_batch_does_not_keep_its_buffer():
    it = Setting()
    appended = it.log.produce(memoryview(batch_of(1)), NOW)

    assert all(isinstance(part, bytes) for part in appended.entry.parts)


def test_a_batch_of_the_bound_is_large():
    least = len(batch_of(1, value=bytes(JOIN_BELOW_BYTES))) - JOIN_BELOW_BYTES
    for less, is_copied in ((0, False), (1, True)):
        batch = memoryview(batch_of(1, value=bytes(JOIN_BELOW_BYTES - least - less)))
        assert len(batch) == JOIN_BELOW_BYTES - less
        parts = Setting().log.produce(batch, NOW).entry.parts
        assert all(isinstance(part, bytes) for part in parts) is is_copied


def test_one_read_is_bounded():
    it = Setting()
    it.commit(*[it.produce(1) for _ in range(BATCHES_PER_READ + 10)])

    assert sum(1 for _ in records_of(it.log.read(0, 1 << 30, at_least_one=True).parts)) == BATCHES_PER_READ
    assert it.log.size_bytes == it.log.bytes_available(0) > it.log.bytes_available(1) > 0
    assert it.log.bytes_available(BATCHES_PER_READ + 10) == 0


@given(
    st.lists(st.tuples(st.integers(0, 1), st.sampled_from([1, 30, 5000, 20_000, 70_000])), max_size=12),
    st.sampled_from([0, 10_000, 1 << 20]),
    st.booleans(),
    st.booleans(),
)
def test_every_source_gives_the_same_slices(plan, cache, is_cold, restarted):
    """Cached or cold, a read from any offset returns the batches from there that fit."""
    it = Setting(cache=cache)
    batches = []
    for partition, size in plan:
        appended = it.produce(1, 2, value=bytes(size), log=it.logs[partition])
        it.commit(appended)
        if partition == 0:
            batches.append((appended.base_offset, b"".join(appended.entry.parts)))
    if restarted:
        it = it.restart(cache=cache)
    it.files.is_cold = is_cold
    for offset in range(it.log.log_end_offset):
        for bytes_max in (0, 300, 30_000, 1 << 20):
            for at_least_one in (False, True):
                result = it.log.read(offset, bytes_max, at_least_one=at_least_one)
                found = b"".join(result.cold() if result.cold else result.parts)
                rest = [batch for base, batch in batches if base + 1 >= offset]
                fitting = list(rest[:1]) if at_least_one else []
                while len(fitting) < len(rest) and len(b"".join(rest[: len(fitting) + 1])) <= bytes_max:
                    fitting.append(rest[len(fitting)])
                expected = b"".join(fitting)
                assert expected.startswith(found)
                assert bool(found) == bool(expected)


def test_a_read_that_fails_on_the_disk_is_an_oserror_of_that_read():
    it = Setting(cache=0)
    it.commit(it.produce(1))
    it.files.is_cold = True

    def fail(operation, _path):
        if operation == "read":
            raise OSError(5, "Input/output error")

    work = it.log.read(0, 1000, at_least_one=True).cold
    it.files.before = fail
    with pytest.raises(OSError):
        work()


def test_bytes_available_count_from_the_batch_of_the_offset():
    """Nothing counts below the log start, nor above the last stable offset for read_committed readers."""
    it = Setting()
    appended = [it.produce(1, 2, value=bytes(size)) for size in (10, 100, 1000)]
    it.commit(*appended)
    first, second, third = (each.entry.size_bytes for each in appended)
    expected = {-1: 0, 0: first + second + third, 1: first + second + third, 2: second + third, 5: third, 6: 0, 7: 0}
    for committed in (False, True):
        assert {offset: it.log.bytes_available(offset, committed=committed) for offset in expected} == expected
    not_durable = it.produce(1)
    assert it.log.bytes_available(6) == 0
    it.log.raise_log_start(3)
    assert [it.log.bytes_available(offset) for offset in (2, 3)] == [0, second + third]
    assert it.log.size_bytes == it.log.appended_bytes == first + second + third
    batch = batch_of(1, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    it.commit(not_durable, it.log.append(read_header(batch), batch, NOW))
    assert it.log.last_stable_offset == 7
    assert it.log.bytes_available(4, committed=True) == it.log.bytes_available(4) - it.log.bytes_available(7) > 0
    assert it.log.bytes_available(7, committed=True) == 0


def test_the_log_start_never_falls_and_never_passes_the_high_watermark():
    it = Setting()
    it.commit(it.produce(1, 2, 3))
    it.produce(4)
    starts = []
    for offset in (2, 1, 9):
        it.log.raise_log_start(offset)
        starts.append(it.log.log_start_offset)
    assert starts == [2, 2, 3]


def test_duplicates_are_counted_once():
    it = Setting()
    for _ in range(2):
        it.commit(it.produce(1, producer_id=7, producer_epoch=0, base_sequence=0))
    it.commit(it.produce(1))
    assert (it.log.appended_batches, it.log.duplicates, len(it.log.index)) == (2, 1, 2)


TIMES = st.integers(0, 12)


@given(st.lists(st.lists(TIMES, min_size=1, max_size=4), max_size=8), st.sampled_from([0, 1 << 20]), st.booleans())
def test_searching_by_time_finds_the_first_record_at_or_after_it(batches, cache, is_cold):
    it = Setting(cache=cache)
    for times in batches:
        it.commit(it.produce(*times))
    it.files.is_cold = is_cold
    rows = list(enumerate(time for times in batches for time in times))
    for target in range(14):
        expected = next(((time, offset, 0) for offset, time in rows if time >= target), None)
        assert expected == resolved(it.log.offset_for_timestamp(target))
    latest = max((time for _, time in rows), default=None)
    expected = next(((time, offset, 0) for offset, time in rows if time == latest), None)
    assert expected == resolved(it.log.max_timestamp())


def test_a_batch_of_very_many_records_is_searched_by_time_in_a_thread():
    it = Setting()
    it.commit(it.produce(*range(1, SEARCHED_AT_ONCE_MAX + 2), compression=Compression.ZSTD))
    it.commit(it.produce(NOW))
    found = it.log.offset_for_timestamp(SEARCHED_AT_ONCE_MAX)
    assert isinstance(found, ColdRead)
    assert found() == (SEARCHED_AT_ONCE_MAX, SEARCHED_AT_ONCE_MAX - 1, 0)
    assert it.log.offset_for_timestamp(NOW) == (NOW, SEARCHED_AT_ONCE_MAX + 1, 0)


@pytest.mark.parametrize(("append_time", "said_ms"), [(False, -1), (True, 7)])
def test_a_marker_too_returns_its_log_append_time(append_time, said_ms):
    it = Setting(rules=Rules(append_time=append_time))
    appended = it.log.append_marker(1, 0, committed=True, coordinator_epoch=0, now_ms=7)
    assert (appended.log_append_time_ms, read_header(b"".join(appended.entry.parts)).max_timestamp) == (said_ms, 7)


def test_a_topic_may_stamp_its_records_on_append():
    it = Setting(rules=Rules(append_time=True))
    appended = it.produce(1, 2)
    it.commit(appended)

    assert appended.log_append_time_ms == NOW
    assert [record.timestamp for record in records_of(it.log.read(0, 1000, at_least_one=True).parts)] == [NOW, NOW]
    assert it.log.max_timestamp() == (NOW, 0, 0)


def test_a_refused_batch_takes_no_offset():
    it = Setting(rules=Rules(size_max=100))
    with pytest.raises(BatchTooLarge):
        it.produce(1, value=bytes(200))

    assert it.produce(1).base_offset == 0


class TestIdempotence:
    def send(self, it, sequence, epoch=0, **options):
        return it.produce(1, producer_id=0, producer_epoch=epoch, base_sequence=sequence, **options)

    def test_a_duplicate_has_its_originals_offsets_and_waits_for_it(self):
        it = Setting()
        it.commit(self.send(it, 0))
        original = self.send(it, 1)

        duplicate = self.send(it, 1)
        assert duplicate == (None, 1, 1, 1, True, True)
        it.commit(original)
        assert self.send(it, 1) == (None, 1, 1, 1, True, False)
        assert it.log.log_end_offset == 2

    def test_gaps_and_old_epochs_are_refused(self):
        it = Setting()
        self.send(it, 0, epoch=1)
        with pytest.raises(OutOfOrderSequence):
            self.send(it, 2, epoch=1)
        with pytest.raises(InvalidProducerEpoch):
            self.send(it, 1, epoch=0)
        with pytest.raises(OutOfOrderSequence):
            self.send(it, 1, epoch=2)
        self.send(it, 1, epoch=1)

    @pytest.mark.parametrize("known", [False, True])
    def test_what_was_sent_behind_a_refused_batch_waits_until_it_is_sent_again(self, known):
        it = Setting(rules=Rules(size_max=200))
        start = 0
        if known:
            self.send(it, 0)
            start = 1
        with pytest.raises(BatchTooLarge):
            self.send(it, start, value=bytes(300))
        for later in (1, 2, 3):
            with pytest.raises(OutOfOrderSequence):
                self.send(it, start + later)
        for sequence in range(start, start + 4):
            assert sequence == self.send(it, sequence).base_offset

    def test_a_damaged_batch_holds_back_its_successors_too(self):
        it = Setting()
        batch = bytearray(batch_of(1, producer_id=0, producer_epoch=0, base_sequence=0))
        batch[-1] ^= 1
        with pytest.raises(CorruptRecord):
            it.log.produce(batch, NOW)
        with pytest.raises(OutOfOrderSequence):
            self.send(it, 1)
        self.send(it, 0)

    def test_a_refused_batch_without_a_sequence_holds_nothing_back(self):
        it = Setting()
        it.log.refuse(batch_of(1, producer_id=0, producer_epoch=0, base_sequence=-1))
        self.send(it, 5)

    @pytest.mark.parametrize("size", range(0, 70, 3))
    def test_a_cut_off_batch_is_refused_cleanly(self, size):
        it = Setting()
        with pytest.raises(RecordError) as caught:
            it.log.produce(batch_of(1, producer_id=0, producer_epoch=0, base_sequence=0)[:size], NOW)
        assert caught.value.error_name in {"INVALID_RECORD", "CORRUPT_MESSAGE"}

    def test_a_header_without_records_says_who_was_refused(self):
        it = Setting()
        header = read_header(batch_of(1, producer_id=0, producer_epoch=0, base_sequence=0))
        _, batch = assembled(header._replace(record_count=0), b"")
        with pytest.raises(RecordError):
            it.log.produce(batch, NOW)
        with pytest.raises(OutOfOrderSequence):
            self.send(it, 1)
        self.send(it, 0)

    def test_all_five_last_batches_survive_a_restart(self):
        it = Setting()
        for sequence in range(7):
            it.commit(self.send(it, sequence))

        it = it.restart()

        for sequence in range(2, 7):
            assert (None, sequence, sequence, 1, True, False) == self.send(it, sequence)
        with pytest.raises(OutOfOrderSequence):
            self.send(it, 1)
        assert self.send(it, 7).base_offset == 7

    def test_producers_are_forgotten_after_silence_counted_from_the_start(self):
        it = Setting()
        it.commit(self.send(it, 0))
        it = it.restart()

        assert it.manager.expire_producers(NOW + 99, 100) == 0
        assert it.manager.expire_producers(NOW + 100, 100) == 1
        assert self.send(it, 5).base_offset == 1, "nothing is known of it: it may start anywhere"


class TestManager:
    def test_topics_are_found_grown_and_deleted(self):
        it = Setting()
        first = it.manager.create("other", b"y" * 16, 1)
        logs = it.manager.create("other", b"y" * 16, 3)

        assert first[0] is logs[0]
        assert [log.partition for log in logs] == [0, 1, 2]
        assert logs[2] is it.manager.find("other", 2)
        assert logs == it.manager.partitions("other")
        assert 5 == len(it.manager) == len(list(it.manager))
        it.manager.delete("other")
        it.manager.delete("other")
        assert it.manager.find("other", 0) is None
        assert it.manager.partitions("other") == ()

    def test_topics_found_in_records_get_their_batches_and_deleted_ones_are_skipped(self):
        it = Setting()
        (kept,) = it.manager.create("kept", b"k" * 16, 1)
        (gone,) = it.manager.create("gone", b"g" * 16, 1)
        for log, value in ((it.log, b"+kept"), (it.log, b"+gone"), (kept, b"1"), (gone, b"1"), (it.log, b"-gone")):
            it.commit(it.produce(1, value=value, log=log))
        it.commit(it.produce(1, log=gone), it.produce(1, log=kept))
        it.files.kill()

        manager = LogManager(Journal.open(Path("/d"), files=it.files))
        manager.create("topic", TOPIC_ID, 2)

        def on_replayed(log, header, batch):
            if log.topic == "topic":
                (record,) = iterate_records(batch, header)
                name = record.value[1:].decode()
                if record.value.startswith(b"+"):
                    manager.create(name, name[:1].encode() * 16, 1)
                else:
                    manager.delete(name)

        manager.recover(on_replayed, NOW)

        assert manager.find("gone", 0) is None
        assert manager.find("kept", 0).high_watermark == 2
        assert (manager.batches_replayed, manager.batches_skipped) == (6, 1)

    def test_an_offset_that_is_there_twice_refuses_the_start(self):
        it = Setting()
        batch = batch_of(1)
        it.commit(it.log.append(read_header(batch), batch, NOW))
        it.log.log_end_offset = 0
        entry = it.log.append(read_header(batch), batch, NOW).entry
        it.journal.sync(it.journal.write([entry]))

        with pytest.raises(JournalCorrupt, match="twice"):
            it.restart()

    def test_rules_change_for_all_partitions(self):
        it = Setting()
        it.manager.set_rules("topic", Rules(size_max=1))

        for log in it.logs:
            with pytest.raises(BatchTooLarge):
                it.produce(1, log=log)

    def test_the_cache_keeps_to_its_budget_over_all_partitions(self):
        it = Setting(cache=5000)
        for number in range(50):
            it.commit(it.produce(1, value=bytes(500), log=it.logs[number % 2]))
            assert it.manager.cache.size_bytes <= 5000
        assert 1 <= len(it.manager.cache) == sum(len(log.tail) for log in it.logs)
        for log in it.logs:
            assert list(log.tail) == list(log.index.bases)[-len(log.tail) :], "the end of the log is cached"


def test_batches_are_stored_in_the_topics_codec_over_a_restart():
    setting = Setting(rules=Rules(compression=Target(Compression.GZIP)))
    for codec in Compression:
        setting.commit(setting.produce(NOW, NOW + 1, value=b"value" * 1000, compression=codec))
    for again in (setting, setting.restart()):
        result = again.log.read(0, 1 << 20, at_least_one=True)
        parts = result.parts if result.cold is None else resolved(result.cold)
        assert [header.compression for header, _ in iterate_batches(b"".join(parts))] == [Compression.GZIP] * 5
        assert [record.offset for record in records_of(parts)] == list(range(10))


def test_later_batches_cannot_overtake_one_that_grew_too_large():
    setting = Setting(rules=Rules(size_max=1000, compression=Target(Compression.NONE)))
    producer = {"producer_id": 1, "producer_epoch": 0}
    setting.commit(setting.produce(NOW, **producer, base_sequence=0))
    with pytest.raises(BatchTooLarge):
        setting.produce(NOW, value=bytes(5000), compression=Compression.GZIP, **producer, base_sequence=1)
    with pytest.raises(OutOfOrderSequence):
        setting.produce(NOW, **producer, base_sequence=2)
    assert setting.produce(NOW, **producer, base_sequence=1).base_offset == 1


def test_a_retried_batch_is_a_duplicate_though_compressed_again():
    setting = Setting(rules=Rules(compression=Target(Compression.ZSTD)))
    first = setting.produce(NOW, producer_id=1, producer_epoch=0, base_sequence=0)
    again = setting.produce(NOW, producer_id=1, producer_epoch=0, base_sequence=0)
    assert again.duplicate
    assert again.base_offset == first.base_offset


def test_a_refused_batch_that_no_producer_has_numbered_takes_the_place_of_none_that_one_has():
    it = Setting()
    for producer in range(GAPS_REMEMBERED):
        it.log.refuse(batch_of(1, producer_id=producer, producer_epoch=0, base_sequence=5))
    it.log.refuse(batch_of(1, producer_id=-1, producer_epoch=0, base_sequence=5))
    with pytest.raises(OutOfOrderSequence):
        it.produce(1, producer_id=0, producer_epoch=0, base_sequence=7)
