"""A log with transactions, driven at random: producers, markers, refused batches, archiving and restarts.

The machine draws the actions of producers, coordinators and the disk. The model (`transaction_model`) keeps only the
history of appended batches. At every step the log has the last stable offset and the producers of the model. A
read_committed reader gets exactly the committed records, in order and once each.
"""

import contextlib
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from pipeline_broker.log.archive.local.local_archive import open_local_archive
from pipeline_broker.log.compaction.cleaning import clean
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.partition.committed_reads import end_of
from pipeline_broker.log.partition.compaction_of_logs import next_round
from pipeline_broker.log.read_result import ColdRead
from pipeline_broker.log.segments.policies import CompactionRules, LogPolicies
from pipeline_broker.log.segments.retention import RetentionRules, RollRules
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches, read_header
from pipeline_broker.records.control_batch import read_marker
from pipeline_broker.records.record import iterate_records
from tests import transactional_batches
from tests.archiving import archive_all
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.partition import transaction_model as model

TOPIC_ID = bytes(range(16))
DIRECTORY = Path("/data")
NOW_MS = 1_000_000
OPERATIONS_MAX = 40
"""A round of the archive takes fewer operations of the disk than this, with the segments of this test."""
CLIENTS = (0, 8, 9)
COMMITTER = 10
"""A producer for which a coordinator writes; no partition has both kinds of batches of one producer."""
PRODUCERS = (*CLIENTS, COMMITTER)
KEYS = 4


class KilledError(BaseException):
    """The process ends here."""


class TransactionMachine(RuleBasedStateMachine):
    policies = LogPolicies(roll=RollRules(segment_bytes=3000))

    @initialize(cache=st.sampled_from([0, 2000, 1 << 20]))
    def start(self, cache):
        self.files = MemoryFileSystem()
        self.cache = cache
        self.story = []  # all that was appended
        self.values = 0
        self.durable_count = 0
        self.log_start = 0
        self.open()

    def open(self):
        """Start a broker, and check that the log is a prefix of the history with all durable batches."""
        self.pending = []
        self.journal = Journal.open(DIRECTORY, segment_bytes=8 << 10, files=self.files)
        self.archive = open_local_archive(DIRECTORY, self.files)
        self.logs = LogManager(self.journal, self.cache, self.archive)
        (self.log,) = self.logs.create("topic", TOPIC_ID, 1, policies=self.policies)
        self.logs.recover(lambda *_: None, now_ms=NOW_MS)
        end = self.log.high_watermark
        kept = [it for it in self.story if it.last_offset < end]
        assert model.end_of(kept) == end, "the log ends within a batch"
        assert len(kept) >= self.durable_count, "durable batches are lost"
        self.story, self.durable_count = kept, len(kept)
        self.log_start = self.log.log_start_offset

    @property
    def durable(self):
        return self.story[: self.durable_count]

    # Producers and coordinators

    def note(self, appended, it):
        assert (appended.base_offset, appended.last_offset) == (it.base_offset, it.last_offset)
        self.story.append(it)
        self.pending.append(appended.entry)

    def new_values(self, count, size):
        self.values += 1
        return tuple(f"{self.values}.{place}:".encode().ljust(size, b"v") for place in range(count))

    @rule(
        producer=st.sampled_from(CLIENTS),
        bump=st.sampled_from([0, 0, 0, 0, 1, -1]),
        slip=st.sampled_from([0, 0, 0, 0, 0, 1, -1, -2]),
        count=st.integers(1, 3),
        is_transactional=st.sampled_from([True, True, True, False]),
        starts_at_zero=st.booleans(),
        size=st.sampled_from([10, 10, 600]),
    )
    def produce(self, producer, bump, slip, count, is_transactional, starts_at_zero, size):
        known = model.producers(self.story).get(producer)
        epoch = max(0, (known.epoch if known else 0) + bump)
        following = known.batches[-1].last_sequence + 1 if known and known.batches and not bump else 0
        sequence = max(0, following + slip)
        values = self.new_values(count, size)
        expected = model.decide_data(
            self.story,
            producer,
            epoch,
            sequence,
            count,
            is_transactional=is_transactional,
            starts_at_zero=starts_at_zero,
        )
        batch = self.batch(values, producer, epoch, sequence, is_transactional=is_transactional)
        appended = decided(
            lambda: transactional_batches.produce(self.log, batch, NOW_MS, starts_at_zero=starts_at_zero)
        )
        if isinstance(expected, int):
            assert (appended.base_offset, appended.duplicate) == (expected, True)
            assert appended.in_flight == (expected >= self.log.high_watermark)
            return
        if expected != "append":
            assert appended == expected
            return
        base = model.end_of(self.story)
        self.note(appended, model.Data(base, values, producer, epoch, sequence, is_transactional, self.values))

    def batch(self, values, producer, epoch, sequence, *, is_transactional):
        records = [NewRecord(value, b"key %d" % (place % KEYS), self.values) for place, value in enumerate(values)]
        return build_batch(
            records,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=is_transactional,
        )

    @rule(count=st.integers(1, 2), size=st.sampled_from([10, 600]))
    def produce_without_producer(self, count, size):
        values = self.new_values(count, size)
        appended = self.log.produce(self.batch(values, -1, -1, -1, is_transactional=False), NOW_MS)
        self.note(appended, model.Data(model.end_of(self.story), values, -1, -1, -1, False, self.values))

    @rule(bump=st.sampled_from([0, 0, 1, -1]))
    def append_by_coordinator(self, bump):
        """Append offsets committed in a transaction. They have no sequence, so only the epoch is checked."""
        producer = COMMITTER
        known = model.producers(self.story).get(producer)
        epoch = max(0, (known.epoch if known else 0) + bump)
        values = self.new_values(1, 10)
        batch = self.batch(values, producer, epoch, -1, is_transactional=True)
        appended = decided(lambda: self.log.append(read_header(batch), batch, NOW_MS))
        if known is not None and epoch < known.epoch:
            assert appended == "INVALID_PRODUCER_EPOCH"
            return
        self.note(appended, model.Data(model.end_of(self.story), values, producer, epoch, -1, True, self.values))

    @rule(
        producer=st.sampled_from(PRODUCERS),
        bump=st.sampled_from([0, 0, 1, 1, -1]),
        coordinator_bump=st.sampled_from([0, 0, 0, 1, -1]),
        is_commit=st.booleans(),
        version=st.sampled_from([0, 1, 2]),
    )
    def end_transaction(self, producer, bump, coordinator_bump, is_commit, version):
        known = model.producers(self.story).get(producer)
        epoch = max(0, (known.epoch if known else 0) + bump)
        coordinator_epoch = max(0, (known.coordinator_epoch if known else 0) + coordinator_bump)
        expected = model.decide_marker(self.story, producer, epoch, coordinator_epoch, version)
        self.values += 1
        marker = {"committed": is_commit, "coordinator_epoch": coordinator_epoch, "version": version}
        appended = decided(lambda: self.log.append_marker(producer, epoch, now_ms=self.values, **marker))
        if expected != "append":
            assert appended == expected
            return
        base = model.end_of(self.story)
        self.note(appended, model.Marker(base, producer, epoch, coordinator_epoch, is_commit, self.values))

    @rule(producer=st.sampled_from(CLIENTS), is_commit=st.booleans(), count=st.integers(1, 3))
    def go_through_a_transaction(self, producer, is_commit, count):
        """From its first batch to its marker, all of it durable: few things drawn one by one come to that."""
        self.produce(producer, 1, 0, count, is_transactional=True, starts_at_zero=True, size=600)
        self.end_transaction(producer, 0, 0, is_commit, version=1)
        self.make_durable(len(self.pending))

    # The disk

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def commit(self, data):
        """Make some appended batches durable."""
        self.make_durable(data.draw(st.integers(1, len(self.pending))))

    def make_durable(self, count):
        entries, self.pending = self.pending[:count], self.pending[count:]
        self.journal.sync(self.journal.write(entries))
        self.logs.on_durable(entries)
        self.durable_count += count

    @rule()
    def archive_all(self):
        archive_all(self.journal, self.logs, NOW_MS)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def power_cut_with_writes_on_their_way(self, data):
        self.journal.write(self.pending)
        self.files.power_cut(lambda n: data.draw(st.integers(0, n)))
        self.open()

    @rule(operations=st.integers(0, OPERATIONS_MAX), loses_power=st.booleans(), data=st.data())
    def crash_while_archiving(self, operations, loses_power, data):
        """The process ends at the nth operation of the disk."""
        left = [operations]

        def before(_operation, _path):
            left[0] -= 1
            if left[0] < 0:
                raise KilledError

        self.files.before = before
        with contextlib.suppress(KilledError):
            self.archive_all()
        self.files.before = lambda _operation, _path: None
        if loses_power:
            self.files.power_cut(lambda n: data.draw(st.integers(0, n)))
        else:
            self.files.kill()
        self.open()

    @rule(is_kill=st.booleans())
    def restart(self, is_kill):
        if is_kill or self.pending:
            self.files.kill()
        else:
            self.journal.close()
        self.open()

    @rule(data=st.data())
    def delete_records(self, data):
        self.log.raise_log_start(data.draw(st.integers(0, self.log.high_watermark)))
        self.log_start = self.log.log_start_offset

    # Questions

    @invariant()
    def it_is_as_the_story_says(self):
        if not hasattr(self, "log"):
            return
        assert self.log.high_watermark == model.end_of(self.durable)
        assert self.log.last_stable_offset == model.last_stable_offset(self.durable, self.log_start)
        assert set(map(tuple, self.log.producers.described())) == model.described(self.story)
        for producer in PRODUCERS:
            known = model.producers(self.story).get(producer)
            found = self.log.producers.open_transaction(producer)
            expected = (known.open_since, known.epoch) if known and known.open_since >= 0 else None
            assert (None if found is None else tuple(found)) == expected

    @rule(data=st.data(), bytes_max=st.sampled_from([1, 300, 2000, 1 << 20]), is_cold=st.booleans())
    def read_committed(self, data, bytes_max, is_cold):
        start = data.draw(st.integers(self.log_start, max(self.log_start, self.log.last_stable_offset)))
        self.files.is_cold = is_cold
        found = self.committed_records(start, bytes_max)
        self.files.is_cold = False
        self.check_committed(found, start)

    def check_committed(self, found, start):
        expected = [
            (offset, value) for offset, value in model.committed(self.durable, self.log_start) if offset >= start
        ]
        assert found == expected

    def committed_records(self, offset, bytes_max):
        """Read like Kafka's own consumer: fetch after fetch, without the records of listed aborted transactions."""
        found = []
        while offset < self.log.last_stable_offset:
            result = self.log.read(offset, bytes_max, at_least_one=True, committed=True)
            parts = result.cold() if result.cold is not None else result.parts
            if not parts:
                break
            assert end_of(parts) == read_header(list(iterate_batches(b"".join(parts)))[-1][1]).last_offset + 1
            listed = resolved(self.log.aborted_transactions(offset, end_of(parts)))
            found += consumed(b"".join(parts), listed, offset)
            offset = end_of(parts)
        assert not self.log.read(self.log.last_stable_offset, 1 << 20, at_least_one=True, committed=True).parts
        return found

    @precondition(lambda self: self.log.last_stable_offset > self.log_start)
    @rule(data=st.data())
    def ask_for_aborted(self, data):
        stable = self.log.last_stable_offset
        first = data.draw(st.integers(self.log_start, stable - 1))
        end = data.draw(st.integers(first + 1, stable))
        listed = resolved(self.log.aborted_transactions(first, end))
        told = [(it.producer_id, it.first_offset, it.last_offset) for it in listed]
        assert told == model.aborted(self.durable, first, end)

    @rule(data=st.data())
    def count_bytes(self, data):
        """Check that the bytes available to a waiting reader exist, and are all below the last stable offset."""
        stable = self.log.last_stable_offset
        offset = data.draw(st.integers(self.log_start, max(self.log_start, self.log.high_watermark)))
        available = self.log.bytes_available(offset, committed=True)
        assert 0 <= available <= self.log.bytes_available(offset)
        assert (available == 0) if offset >= stable else (available >= 0)

    def teardown(self):
        if hasattr(self, "log"):
            self.files.kill()
            self.open()
            self.it_is_as_the_story_says()
            self.check_committed(self.committed_records(self.log_start, 1 << 20), self.log_start)


def decided(append):
    """Return the result of an append, or the name of its error."""
    try:
        return append()
    except LogError as error:
        return error.error_name


def resolved(found):
    return found() if isinstance(found, ColdRead) else found


def consumed(data, listed, offset):
    """The records that a consumer hands on, from one answer."""
    waiting, aborting, found = sorted(listed, key=lambda it: it.first_offset), set(), []
    for header, batch in iterate_batches(data):
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborting.add(waiting.pop(0).producer_id)
        if header.is_control:
            if header.record_count and not read_marker(header, batch).is_commit:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            found += [(record.offset, bytes(record.value)) for record in iterate_records(batch, header)]
    return [(at, value) for at, value in found if at >= offset]


class CompactedMachine(TransactionMachine):
    """The same machine with compaction: readers get the last committed record of each key."""

    policies = LogPolicies(
        roll=RollRules(segment_bytes=700, compact=True),
        retention=RetentionRules(delete=False),
        compaction=CompactionRules(min_cleanable_dirty_ratio=0.0, delete_retention_ms=0),
    )

    @rule()
    def compact(self):
        self.archive_all()
        found = next_round([self.log], NOW_MS, is_forced=True)
        if found is None:
            return
        assert found.plan.first_uncleanable_offset <= self.log.last_stable_offset
        made = clean(self.archive, found.manifest, found.plan, found.last_records, NOW_MS)
        if made is None:
            return
        edit, deleted = self.archive.replace(found.key, made)
        self.logs.show(edit)
        self.archive.delete_files(deleted)

    def check_committed(self, found, start):
        expected = [
            (offset, value) for offset, value in model.committed(self.durable, self.log_start) if offset >= start
        ]
        remaining = iter(expected)
        assert all(each in remaining for each in found), "in order, each once, and nothing else"
        assert table(found) == table(expected)

    ask_for_aborted = None


def table(records):
    """Return the values by key for a reader at the end of the log."""
    return {value.split(b":")[0].split(b".")[1]: (offset, value) for offset, value in records}
