"""A share partition, compared with a model over any sequence of acquisitions, acknowledgements, time-outs and restarts.

Invariants:

* At most one member has acquired a record.
* After the response to an accept or reject, the record is never delivered again.
* Between two restarts, no record is delivered more often than the limit allows.
* The start only rises, and everything before it is complete.
* A restart from the durable records loses no change that a member got a response for.
"""

from __future__ import annotations

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pipeline_broker.config.group_settings import ShareGroupSettings
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.state.share_coordinator.share_states import ShareStates, StateWrite
from pipeline_broker.state.share_partitions.messages import (
    AcknowledgeError,
    AcknowledgementBatch,
    AcquireLimits,
    AcquireMode,
    FetchedBatch,
)
from pipeline_broker.state.share_partitions.record_state import TERMINAL, AcknowledgeType, RecordState
from pipeline_broker.state.share_partitions.share_partition import SharePartition
from tests.crashes.lengths import examples
from tests.state.replaying import replay_share

MEMBERS = ("one", "two", "three")
SETTINGS = ShareGroupSettings(delivery_count_limit=3, partition_max_record_locks=100, record_lock_duration_ms=1000)
KEY = ShareKey("g", bytes(16), 0)


@attrs.define
class Known:
    """The model's state of a record."""

    owner: str = ""
    lock_until_ms: int = 0
    is_done: bool = False
    deliveries: int = 0


class SharePartitionMachine(RuleBasedStateMachine):
    """Records are offsets of a log with batches of several sizes; changes pass through a share coordinator."""

    @initialize(sizes=st.lists(st.integers(1, 7), min_size=3, max_size=12), updates_max=st.integers(0, 3))
    def begin(self, sizes, updates_max):
        self.now_ms = 0
        self.batches = []
        for size in sizes:
            first = self.batches[-1].last + 1 if self.batches else 0
            self.batches.append(FetchedBatch(first, first + size - 1))
        self.records = [Known() for _ in range(self.batches[-1].last + 1)]
        self.updates_max = updates_max
        self.journal = []
        self.states = ShareStates(updates_max)
        self.keep(self.states.initialize(KEY, 0, 0, 0))
        self.partition = SharePartition(0, SETTINGS)
        self.start_offset = 0

    def keep(self, write):
        """Append a write and make it durable."""
        self.journal += write.records
        self.states.durable([write])

    def changed(self, change):
        if change is not None:
            wanted = StateWrite(0, 0, change.start_offset, change.delivery_complete_count, change.batches)
            self.keep(self.states.write(KEY, wanted, self.now_ms))

    @rule(
        member=st.sampled_from(MEMBERS),
        records_max=st.integers(1, 12),
        batch_size=st.integers(1, 5),
        mode=st.sampled_from(AcquireMode),
        read=st.integers(1, 5),
    )
    def acquire(self, member, records_max, batch_size, mode, read):
        offset = self.partition.next_offset()
        if offset is None or offset > self.batches[-1].last:
            return
        found = [batch for batch in self.batches if batch.last >= offset][:read]
        wanted = AcquireLimits(records_max=records_max, batch_size=batch_size, mode=mode)
        acquired = self.partition.acquire(member, offset, found, wanted, self.now_ms)
        assert acquired, "an available record can be acquired"
        total = 0
        for first, last, count in acquired:
            for record in self.records[first : last + 1]:
                total += 1
                assert not record.is_done, "a complete record is not delivered again"
                assert not record.owner, "another member has acquired it"
                record.owner, record.lock_until_ms = member, self.now_ms + SETTINGS.record_lock_duration_ms
                record.deliveries += 1
                assert count == record.deliveries <= SETTINGS.delivery_count_limit
        assert mode is AcquireMode.BATCH_OPTIMIZED or total <= records_max

    @rule(data=st.data(), member=st.sampled_from(MEMBERS))
    def acknowledge(self, data, member):
        owned = [number for number, record in enumerate(self.records) if record.owner == member]
        anywhere = st.integers(0, len(self.records) - 1)
        first = data.draw(st.sampled_from(owned) | anywhere if owned else anywhere)
        last = data.draw(st.integers(first, min(first + 4, len(self.records) - 1)))
        kinds = st.sampled_from(AcknowledgeType)
        size = data.draw(st.sampled_from([1, last - first + 1]))
        types = data.draw(st.lists(kinds, min_size=size, max_size=size))
        start = self.partition.start_offset
        touched = [number for number in range(first, last + 1) if number >= start]
        is_owner = all(self.records[number].owner == member for number in touched)
        try:
            change = self.partition.acknowledge(member, [AcknowledgementBatch(first, last, types)], self.now_ms)
        except AcknowledgeError:
            assert not is_owner, "the owner may acknowledge with any type"
            return
        assert is_owner, "no other member may"
        for number in touched:
            kind = types[0] if len(types) == 1 else types[number - first]
            self.say(self.records[number], kind)
        self.changed(change)

    def say(self, record, kind):
        if kind is AcknowledgeType.RENEW:
            record.lock_until_ms = self.now_ms + SETTINGS.record_lock_duration_ms
            return
        record.owner = ""
        if kind is not AcknowledgeType.RELEASE or record.deliveries >= SETTINGS.delivery_count_limit:
            record.is_done = True

    @rule(member=st.sampled_from(MEMBERS))
    def leave(self, member):
        self.changed(self.partition.release(member))
        for record in self.records:
            if record.owner == member:
                self.say(record, AcknowledgeType.RELEASE)

    @rule(passed_ms=st.integers(1, 1500))
    def time_passes(self, passed_ms):
        self.now_ms += passed_ms
        due = [record for record in self.records if record.owner and record.lock_until_ms <= self.now_ms]
        assert not due or self.partition.next_lock_ms <= self.now_ms, "no lock is checked too late"
        self.changed(self.partition.expire_locks(self.now_ms))
        for record in due:
            self.say(record, AcknowledgeType.RELEASE)

    @precondition(lambda self: self.records)
    @rule()
    def restart(self):
        """Lose acquisitions, as in Kafka, and the deliveries that were not acknowledged."""
        self.states = ShareStates(self.updates_max)
        for offset, record in enumerate(self.journal):
            replay_share(self.states, record, offset)
        state = self.states.find(KEY)
        assert state is not None
        self.partition = SharePartition(state.start_offset, SETTINGS, state.batches)
        counts = {}
        for run in self.partition.runs:
            for number in range(run.first, run.last + 1):
                counts[number] = run.delivery_count
        for number, record in enumerate(self.records):
            record.owner = ""
            if not record.is_done:
                record.deliveries = counts.get(number, 0)

    @invariant()
    def start_rises(self):
        if not hasattr(self, "partition"):
            return
        assert self.partition.start_offset >= self.start_offset
        self.start_offset = self.partition.start_offset
        assert all(record.is_done for record in self.records[: self.start_offset])

    @invariant()
    def runs_say_what_the_model_says(self):
        if not hasattr(self, "partition"):
            return
        position = self.partition.start_offset
        before = None
        for run in self.partition.runs:
            assert run.first == position, "runs have no holes"
            assert before is None or not before.continues_as(run), "neighbours that share everything are one run"
            before = run
            position = run.last + 1
            for record in self.records[run.first : run.last + 1]:
                assert (run.state in TERMINAL) == record.is_done
                assert (run.state is RecordState.ACQUIRED) == bool(record.owner)
                assert run.member_id == record.owner
        window = self.records[self.partition.start_offset : position]
        assert self.partition.delivery_complete_count == sum(record.is_done for record in window)
        assert all(not record.owner and not record.is_done for record in self.records[position:])

    def teardown(self):
        """Check that every record becomes complete after a limited number of deliveries."""
        if not hasattr(self, "partition"):
            return
        for _ in range(len(self.records) * (SETTINGS.delivery_count_limit + 2)):
            if self.partition.start_offset > self.batches[-1].last:
                return
            self.time_passes(SETTINGS.record_lock_duration_ms)
            self.acquire("one", 500, 500, AcquireMode.BATCH_OPTIMIZED, len(self.batches))
        assert self.partition.start_offset > self.batches[-1].last


SharePartitionMachine.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestSharePartitionMachine = SharePartitionMachine.TestCase
