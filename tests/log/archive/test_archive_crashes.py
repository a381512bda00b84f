"""Journal, archive and partition logs against a plain model, with kills and power cuts at every operation of the disk.

The model is the list of records written to each partition, with their leader epochs. After any crash each log must hold
a prefix of it, at least as long as the acknowledged records. Then each durability measure is sabotaged in turn, and the
same machine must notice.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from pipeline_broker.log.archive import archiver as archiver_module
from pipeline_broker.log.archive.archiver import SEGMENTS_AT_ONCE, Archiver
from pipeline_broker.log.archive.local.local_archive import open_local_archive
from pipeline_broker.log.errors import DamagedSegment, JournalCorrupt, ManifestDamaged
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.segments.policies import LogPolicies
from pipeline_broker.log.segments.retention import RollRules
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches, read_header
from pipeline_broker.records.record import iterate_records
from tests.archiving import archive_some
from tests.crashes.lengths import examples
from tests.files.memory_file_system import MemoryFileSystem

TOPIC_ID = bytes(range(16))
PARTITIONS = 2
DIRECTORY = Path("/data")
READ_BYTES = 1 << 20
OPERATIONS_MAX = 60
"""A round of the archive takes fewer operations of the disk than this, with the segments of this test."""
CHECKS_MAX = 24
"""A round looks fewer times than this whether it is to end."""


class KilledError(BaseException):
    """The process ends here."""


class GivenUpError(BaseException):
    """The round is given up here."""


@pytest.fixture(autouse=True)
def _rounds_look_at_every_pause(monkeypatch):
    monkeypatch.setattr("pipeline_broker.log.archive.pace.WORK_NS", -1)
    monkeypatch.setattr("pipeline_broker.log.archive.pace.PAUSE_SECONDS", 0)


class ArchiveMachine(RuleBasedStateMachine):
    archiver = Archiver

    def make_files(self):
        return MemoryFileSystem()

    @initialize(
        segment_kib=st.sampled_from([8, 16]),
        cache=st.sampled_from([0, 1 << 20]),
        roll_bytes=st.sampled_from([300, 4000, 1 << 20]),
    )
    def start(self, segment_kib, cache, roll_bytes):
        self.files = self.make_files()
        self.segment_bytes = segment_kib << 10
        self.cache = cache
        self.policies = LogPolicies(roll=RollRules(segment_bytes=roll_bytes))
        self.written = [[] for _ in range(PARTITIONS)]
        self.acknowledged = [0] * PARTITIONS
        self.values = 0
        self.open()

    def open(self):
        self.files.before = lambda _operation, _path: None
        self.files.kill()
        journal = Journal.open(DIRECTORY, segment_bytes=self.segment_bytes, files=self.files)
        archive = open_local_archive(DIRECTORY, self.files)
        self.journal, self.archive = journal, archive
        self.manager = LogManager(journal, self.cache, archive)
        self.logs = self.manager.create("topic", TOPIC_ID, PARTITIONS, policies=self.policies)
        self.manager.recover(lambda *_: None, now_ms=0)
        archive.remove_unknown({log.entry_key for log in self.logs})
        self.archiving = self.archiver(archive, journal)
        for log in self.logs:
            found = values_from(log, 0)
            written = self.written[log.partition]
            assert found == written[: len(found)], "the log holds something else than was written"
            assert len(found) >= self.acknowledged[log.partition], "acknowledged records are lost"
            assert log.log_end_offset == log.high_watermark == len(found)
            assert log.leader_epoch >= max((epoch for _, epoch in found), default=0)
            self.written[log.partition] = found
            self.acknowledged[log.partition] = len(found)

    @rule(partitions=st.lists(st.integers(0, PARTITIONS - 1), min_size=1, max_size=4), data=st.data())
    def commit(self, partitions, data):
        entries = []
        for partition in partitions:
            self.values += 1
            size = data.draw(st.sampled_from([10, 100, 3000]))
            value = f"{self.values}:".encode().ljust(size, b"v")
            batch = build_batch([NewRecord(value, timestamp=self.values)])
            log = self.logs[partition]
            entries.append(log.append(read_header(batch), batch, now_ms=0).entry)
            self.written[partition].append((value, log.leader_epoch))
        self.journal.sync(self.journal.write(entries))
        self.manager.on_durable(entries)
        for partition in partitions:
            self.acknowledged[partition] += 1

    @rule(partition=st.integers(0, PARTITIONS - 1), rise=st.integers(1, 3))
    def begin_epoch(self, partition, rise):
        log = self.logs[partition]
        log.begin_epoch(log.leader_epoch + rise, log.log_end_offset)

    @rule(partition=st.integers(0, PARTITIONS - 1), data=st.data())
    def end_epoch(self, partition, data):
        """An epoch ends where the records of a later one begin."""
        log, epochs = self.logs[partition], [epoch for _, epoch in self.written[partition]]
        asked = data.draw(st.integers(0, log.leader_epoch + 1))
        known = max((each for each in (*epochs, log.leader_epoch) if each <= asked), default=asked)
        end = next((offset for offset, epoch in enumerate(epochs) if epoch > known), len(epochs))
        expected = (-1, -1) if asked > log.leader_epoch else (known, end)
        assert log.end_of_epoch(asked) == expected

    @rule()
    def seal(self):
        self.journal.seal()

    @rule()
    def prepare_ahead(self):
        self.journal.prepare_ahead()

    @rule(segments_max=st.integers(1, SEGMENTS_AT_ONCE))
    def archive_some(self, segments_max):
        found = archive_some(self.archiving, self.manager, segments_max=segments_max)
        if found is not None:
            number, edit = found
            self.manager.show(edit)
            self.journal.recycle(number)

    @rule(
        operations=st.integers(0, OPERATIONS_MAX),
        segments_max=st.integers(1, SEGMENTS_AT_ONCE),
        loses_power=st.booleans(),
        data=st.data(),
    )
    def crash_while_archiving(self, operations, segments_max, loses_power, data):
        """The process ends at the nth operation of the disk."""
        left = [operations]

        def before(_operation, _path):
            left[0] -= 1
            if left[0] < 0:
                raise KilledError

        self.files.before = before
        try:
            self.journal.seal()
            self.archive_some(segments_max)
        except KilledError:
            pass
        self.files.before = lambda _operation, _path: None
        if loses_power:
            self.files.power_cut(lambda n: data.draw(st.integers(0, n)))
        self.open()

    @rule(checks=st.integers(0, CHECKS_MAX))
    def give_up_archiving(self, checks):
        """End the broker between two steps of a round, without an edit."""
        left = [checks]

        def check():
            left[0] -= 1
            if left[0] < 0:
                raise GivenUpError

        self.journal.seal()
        before = self.archive.lsn
        try:
            found = archive_some(self.archiving, self.manager, check=check)
        except GivenUpError:
            self.given_up(before)
        else:
            if found is not None:
                number, edit = found
                self.manager.show(edit)
                self.journal.recycle(number)

    def given_up(self, lsn_before):
        assert self.archive.lsn == lsn_before, "a round that is given up changes nothing that counts"

    @rule(data=st.data())
    def power_cut(self, data):
        self.files.power_cut(lambda n: data.draw(st.integers(0, n)))
        self.open()

    @precondition(lambda self: self.values)
    @rule()
    def stop_cleanly(self):
        self.journal.close()
        self.open()

    @rule(partition=st.integers(0, PARTITIONS - 1), data=st.data(), is_cold=st.booleans())
    def read(self, partition, data, is_cold):
        """Check that a read from any offset returns the records of the model."""
        log = self.logs[partition]
        offset = data.draw(st.integers(0, log.log_end_offset))
        self.files.is_cold = is_cold
        found = values_from(log, offset)
        self.files.is_cold = False
        assert found == self.written[partition][offset : self.acknowledged[partition]]
        assert log.size_bytes >= sum(len(value) for value, _ in found)

    @precondition(lambda self: self.values)
    @rule(partition=st.integers(0, PARTITIONS - 1), data=st.data())
    def search(self, partition, data):
        """The first record at or after a time; the times are the numbers of the values."""
        log = self.logs[partition]
        time = data.draw(st.integers(0, self.values + 1))
        found = log.offset_for_timestamp(time)
        found = found() if callable(found) else found
        visible = self.written[partition][: self.acknowledged[partition]]
        expected = next((place for place, value in enumerate(visible) if int(value[0].split(b":")[0]) >= time), None)
        assert (None if found is None else found.offset) == expected
        assert found is None or found.leader_epoch == visible[expected][1]

    def teardown(self):
        if hasattr(self, "files"):
            self.open()


def values_from(log, offset):
    """All visible values from an offset on, with the leader epochs of their batches."""
    values = []
    while offset < log.high_watermark:
        result = log.read(offset, READ_BYTES, at_least_one=True)
        parts = result.cold() if result.cold is not None else result.parts
        assert parts, f"nothing at {offset} of {log!r}"
        for header, batch in iterate_batches(b"".join(parts)):
            for record in iterate_records(batch, header):
                assert record.offset == offset
                values.append((bytes(record.value), header.partition_leader_epoch))
                offset += 1
    return values


SETTINGS = settings(
    max_examples=examples(150), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
BLIND = settings(SETTINGS, max_examples=1500, phases=[Phase.generate], derandomize=True)


def test_nothing_acknowledged_is_lost_on_its_way_to_the_archive():
    run_state_machine_as_test(ArchiveMachine, settings=SETTINGS)


def assert_noticed(machine):
    """Check that the sabotaged machine fails: records are missing or wrong, or startup is refused."""
    refusals = (AssertionError, JournalCorrupt, ManifestDamaged, DamagedSegment, FileNotFoundError)
    with pytest.raises(refusals):
        run_state_machine_as_test(machine, settings=BLIND)


@pytest.mark.parametrize("left_out", ["settle", "settle_names"])
def test_a_kind_of_sync_left_out_is_noticed(left_out):
    class Files(MemoryFileSystem):
        pass

    setattr(Files, left_out, lambda *_: None)

    class Machine(ArchiveMachine):
        def make_files(self):
            return Files()

    assert_noticed(Machine)


def test_segments_that_are_not_synced_before_the_manifest_names_them_are_noticed(monkeypatch):
    monkeypatch.setattr("pipeline_broker.log.archive.local.local_store.LocalStore.sync", lambda self, names: None)
    assert_noticed(ArchiveMachine)


def test_a_journal_that_is_recycled_before_the_manifest_is_durable_is_noticed():
    class Hasty(Archiver):
        def take_over(self, segments, targets, now_ms, **options):
            entries = {
                segment.number: [
                    (key, place, memoryview(bytes(batch)))
                    for key, place, batch in self._journal.sealed_entries(*segment)
                ]
                for segment in segments
            }
            self._journal.recycle(segments[-1].number)
            self._journal.sealed_entries = lambda number, *_: iter(entries[number])
            self._journal.recycle = lambda _: None
            try:
                return super().take_over(segments, targets, now_ms, **options)
            finally:
                del self._journal.sealed_entries

    class Machine(ArchiveMachine):
        archiver = Hasty

        def archive_some(self, segments_max):
            super().archive_some(segments_max)
            self.journal.__dict__.pop("recycle", None)

    assert_noticed(Machine)


def test_an_lsn_that_is_ahead_of_the_archive_is_noticed(monkeypatch):
    original = archiver_module.Edit
    monkeypatch.setattr(archiver_module, "Edit", lambda lsn, partitions: original(lsn + 1, partitions))
    assert_noticed(ArchiveMachine)


def test_a_journal_that_is_recycled_after_a_round_that_was_given_up_is_noticed():
    class Machine(ArchiveMachine):
        def given_up(self, lsn_before):
            super().given_up(lsn_before)
            self.journal.recycle(self.archiving.next_round()[-1].number)

    assert_noticed(Machine)
