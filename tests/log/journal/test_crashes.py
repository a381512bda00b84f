"""Journal and partition logs against a plain model, with kills and power cuts at every operation.

The model is the list of written records. After any crash the journal must hold a prefix of that list, at least as long
as the acknowledged records: nothing acknowledged is lost, nothing reappears, nothing is skipped. Then each durability
measure is sabotaged in turn, and the same machine must notice.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pipeline_broker.files import large_writes
from pipeline_broker.files.file_system import BLOCK_BYTES
from pipeline_broker.log.errors import JournalCorrupt
from pipeline_broker.log.journal import segment as segment_module
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.record import iterate_records
from tests.crashes.lengths import examples
from tests.files.memory_file_system import MemoryFileSystem

TOPIC_ID = bytes(range(16))
PARTITIONS = 3
DIRECTORY = Path("/data")


class CrashMachine(RuleBasedStateMachine):
    flush = "always"
    cuts_lose = True  # False: only kills, after which unsynced writes are still there

    def make_files(self):
        return MemoryFileSystem()

    @initialize(segment_kib=st.sampled_from([8, 12, 64]), cache=st.sampled_from([0, 2000, 1 << 20]))
    def start(self, segment_kib, cache):
        self.files = self.make_files()
        self.segment_bytes = segment_kib << 10
        self.cache = cache
        self.written = []  # (partition, base offset, value), in LSN order
        self.acknowledged = 0
        self.values = 0
        self.open()

    def open(self):
        self.pending = []  # appended, not yet written
        self.flying = []  # [ticket, entries, synced]
        self.journal = Journal.open(DIRECTORY, flush=self.flush, segment_bytes=self.segment_bytes, files=self.files)
        self.manager = LogManager(self.journal, cache_bytes_max=self.cache)
        self.logs = self.manager.create("topic", TOPIC_ID, PARTITIONS)
        self.set_policies()
        found = []

        def on_replayed(log, header, batch):
            assert log is self.logs[log.partition]
            found.extend((log.partition, r.offset, bytes(r.value)) for r in iterate_records(batch, header))

        self.manager.recover(on_replayed, now_ms=0)
        assert found == self.written[: len(found)], "the journal holds something else than was written"
        self.check_kept(found)
        assert self.manager.batches_skipped == 0
        self.written = found
        self.acknowledged = len(found)

    def set_policies(self):
        """For those that sync some topics later than others."""

    def check_kept(self, found):
        """Check after a crash that the recovered records are a prefix of the written ones."""
        assert len(found) >= self.acknowledged, "acknowledged records are lost"

    @rule(partition=st.integers(0, PARTITIONS - 1), size=st.sampled_from([10, 100, 700, 5000, 70_000]))
    def append(self, partition, size):
        self.values += 1
        value = f"{self.values}:".encode().ljust(size, b"v")
        batch = build_batch([NewRecord(value, timestamp=self.values)])
        entry = self.logs[partition].append(read_header(batch), batch, now_ms=0).entry
        self.pending.append((entry, (partition, entry.base_offset, value)))

    @precondition(lambda self: self.pending)
    @rule()
    def write(self):
        entries = [entry for entry, _ in self.pending]
        ticket = self.journal.write(entries)
        self.written += [row for _, row in self.pending]
        self.flying.append([ticket, entries, False])
        self.pending = []

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def sync_one(self, data):
        """Syncs end in any order; acknowledgements follow the order of the writes."""
        flight = data.draw(st.sampled_from([flight for flight in self.flying if not flight[2]]))
        self.journal.sync(flight[0])
        flight[2] = True
        while self.flying and self.flying[0][2]:
            _, entries, _ = self.flying.pop(0)
            self.manager.on_durable(entries)
            self.acknowledged += len(entries)

    @rule()
    def prepare_ahead(self):
        self.journal.prepare_ahead()

    @rule()
    def kill(self):
        self.files.kill()
        self.open()

    @precondition(lambda self: self.cuts_lose)
    @rule(data=st.data())
    def power_cut(self, data):
        self.files.power_cut(lambda n: data.draw(st.integers(0, n)))
        self.open()

    @precondition(lambda self: not self.pending and not self.flying)
    @rule()
    def stop_cleanly(self):
        self.journal.close()
        self.open()
        assert len(self.written) == self.acknowledged

    @rule(data=st.data(), is_cold=st.booleans())
    def read(self, data, is_cold):
        """Any offset and limit gives the model's slice, at batch boundaries."""
        log = data.draw(st.sampled_from(self.logs))
        offset = data.draw(st.integers(0, log.log_end_offset))
        bytes_max = data.draw(st.sampled_from([0, 1, 200, 2000, 10_000, 1 << 20]))
        at_least_one = data.draw(st.booleans())
        self.files.is_cold = is_cold
        result = log.read(offset, bytes_max, at_least_one=at_least_one)
        parts = result.cold() if result.cold else result.parts
        self.files.is_cold = False
        found = [(log.partition, record.offset, bytes(record.value)) for record in iterate_records_of(b"".join(parts))]
        visible = [row for row in self.written[: self.acknowledged] if row[0] == log.partition and row[1] >= offset]
        assert found == visible[: len(found)]
        size = sum(map(len, parts))
        assert size <= bytes_max or (at_least_one and len(found) == 1)
        if visible and (at_least_one or bytes_max >= 1 << 20):
            assert found, "there is something to read"

    @invariant()
    def visible_is_durable(self):
        for log in getattr(self, "logs", ()):
            rows = [row for row in self.written[: self.acknowledged] if row[0] == log.partition]
            assert log.high_watermark == len(rows) == len(log.index)

    def teardown(self):
        if hasattr(self, "files"):
            self.files.kill()
            self.open()


def iterate_records_of(data):
    from pipeline_broker.records.batch import iterate_batches

    for header, batch in iterate_batches(data):
        yield from iterate_records(batch, header)


SETTINGS = settings(
    max_examples=examples(120), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
BLIND = settings(SETTINGS, max_examples=1500, phases=[Phase.generate], derandomize=True)


def test_nothing_acknowledged_is_lost_and_nothing_else_appears():
    """Cases 12 and 15."""
    run_state_machine_as_test(CrashMachine, settings=SETTINGS)


@pytest.mark.parametrize("is_direct_possible", [True, False])
def test_writes_that_bypass_the_page_cache_are_not_lost(monkeypatch, is_direct_possible):
    """Frames of a few kilobytes count as large here."""
    monkeypatch.setattr(large_writes, "LARGE_WRITE_BYTES_MIN", 2 * BLOCK_BYTES)

    class Machine(CrashMachine):
        def make_files(self):
            files = super().make_files()
            files.is_direct_possible = is_direct_possible
            return files

    run_state_machine_as_test(Machine, settings=SETTINGS if is_direct_possible else settings(SETTINGS, max_examples=20))


def test_with_flush_os_a_kill_loses_nothing():
    class Killed(CrashMachine):
        flush = "os"
        cuts_lose = False

    run_state_machine_as_test(Killed, settings=settings(SETTINGS, max_examples=40))


def assert_noticed(machine):
    """Check that the sabotaged machine fails: records are missing or wrong, or startup is refused."""
    with pytest.raises((AssertionError, JournalCorrupt, FileNotFoundError)):
        run_state_machine_as_test(machine, settings=BLIND)


def test_a_power_cut_with_flush_os_is_noticed():
    class OsFlush(CrashMachine):
        flush = "os"

    assert_noticed(OsFlush)


def test_a_sync_left_out_is_noticed():
    class WithoutSync(MemoryFileSystem):
        def settle(self, content):
            pass

    class Machine(CrashMachine):
        def make_files(self):
            return WithoutSync()

    assert_noticed(Machine)


def test_a_directory_sync_left_out_is_noticed():
    """Case 14."""

    class WithoutDirectorySync(MemoryFileSystem):
        def settle_names(self, directory):
            pass

    class Machine(CrashMachine):
        def make_files(self):
            return WithoutDirectorySync()

    assert_noticed(Machine)


@pytest.mark.parametrize("is_synced", [True, False])
def test_the_first_commit_survives_in_a_directory_that_is_new(is_synced):
    """Left out, the sync of the new directory's name is missed."""
    files = MemoryFileSystem()
    files.make_directory(DIRECTORY)
    settle_names = files.settle_names
    files.settle_names = lambda directory: settle_names(directory) if is_synced or directory != DIRECTORY else None
    lives = []
    for _ in range(2):
        journal = Journal.open(DIRECTORY, segment_bytes=64 << 10, files=files)
        manager = LogManager(journal)
        (log,) = manager.create("topic", TOPIC_ID, 1)
        manager.recover(lambda *_: None, 0)
        lives.append(log.high_watermark)
        batch = build_batch([NewRecord(b"kept")])
        journal.sync(journal.write([log.append(read_header(batch), batch, 0).entry]))
        files.power_cut(dice([]))
    assert lives == [0, 1 if is_synced else 0]


def life_after_a_lost_frame():
    """Two commits in flight; of them the power cut leaves the second. A commit of the first one's size follows."""
    files = MemoryFileSystem()
    values = []
    for life, written in enumerate((2, 1, 0)):
        journal = Journal.open(DIRECTORY, segment_bytes=64 << 10, files=files)
        manager = LogManager(journal)
        (log,) = manager.create("topic", TOPIC_ID, 1)
        values.clear()
        manager.recover(
            lambda _, header, batch: values.extend(bytes(r.value) for r in iterate_records(batch, header)), 0
        )
        for number in range(written):
            batch = build_batch([NewRecord(f"life {life} commit {number}".encode())])
            ticket = journal.write([log.append(read_header(batch), batch, 0).entry])
        if life == 1:
            journal.sync(ticket)
        files.power_cut(dice([0, 1] if life == 0 else []))
    return values


def dice(numbers):
    """These throws, then zeros."""
    throws = iter(numbers)
    return lambda _n: next(throws, 0)


def test_a_frame_behind_a_lost_one_stays_dead():
    """Case 15."""
    assert life_after_a_lost_frame() == [b"life 1 commit 0"]


def test_a_torn_tail_left_in_place_is_noticed(monkeypatch):
    """Without the cut, the unacknowledged frame reappears after a later one."""
    monkeypatch.setattr("tests.files.memory_file_system._MemoryFile.truncate", lambda self, size_bytes: None)
    assert life_after_a_lost_frame() == [b"life 1 commit 0", b"life 0 commit 1"]


def test_a_recovery_that_trusts_the_page_cache_is_noticed(monkeypatch):
    """Kill, start, power cut: records that the start made visible must have been synced by it."""
    from pipeline_broker.log.journal import recovery

    original = recovery.Recovery.__init__
    monkeypatch.setattr(
        recovery.Recovery,
        "__init__",
        lambda self, *places, **options: original(self, *places, **(options | {"must_sync": lambda: False})),
    )
    assert_noticed(CrashMachine)


def frames_in_a_spare_survive():
    """Fill a segment, acknowledge a commit in the spare, and cut the power with all unsynced names; return the
    survivors.
    """
    files = MemoryFileSystem()
    found = []
    for life in range(2):
        journal = Journal.open(DIRECTORY, segment_bytes=8 << 10, files=files)
        manager = LogManager(journal)
        (log,) = manager.create("topic", TOPIC_ID, 1)
        manager.recover(
            lambda _, header, batch: found.extend(bytes(r.value)[:1] for r in iterate_records(batch, header)), 0
        )
        for value in (b"a", b"b", b"c") if life == 0 else ():
            journal.prepare_ahead()
            batch = build_batch([NewRecord(value * 3000)])
            journal.sync(journal.write([log.append(read_header(batch), batch, 0).entry]))
        files.power_cut(dice([]))
    return found


def test_frames_are_written_to_a_spare_only_after_its_name_is_durable(monkeypatch):
    """Otherwise acknowledged frames are lost with the name, and the spare, expected to be zeros, holds old frames.

    Case 4.
    """
    assert segment_module.SPARE_NAME
    assert frames_in_a_spare_survive() == [b"a", b"b", b"c"]
    original = segment_module.activate_spare

    def hasty(files, directory, number, identity):
        files.settle_names, kept = (lambda _directory: None), files.settle_names
        try:
            return original(files, directory, number, identity)
        finally:
            files.settle_names = kept

    monkeypatch.setattr("pipeline_broker.log.journal.journal.activate_spare", hasty)
    assert frames_in_a_spare_survive() != [b"a", b"b", b"c"]
