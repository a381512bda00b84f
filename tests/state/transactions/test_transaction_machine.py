"""The transaction coordinator, compared with a model; a crash is possible after every single appended entry.

All entries are in one journal, as in the broker. A crash keeps a prefix of it that holds at least the entries that
clients got a response for. It may cut through a decision, which the broker's frames do not even allow. Clients write
batches with tags. The result of a transaction is derived from the positions of its tags and markers in each partition,
never from the coordinator.

Longer than most files: one machine, and the faulty coordinators that it detects.
"""

from __future__ import annotations

import itertools
import math

import attrs
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.producers.producer_state import ProducedBatch, ProducerStates
from pipeline_broker.records.control_batch import EndMarker
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.transactions.coordinator import (
    Decision,
    Marker,
    Producer,
    TransactionCoordinator,
    TransactionSettings,
    TransactionUsage,
)
from pipeline_broker.state.transactions.states import PREPARED
from pipeline_broker.state.transactions.transaction import Partition
from tests.crashes.lengths import examples
from tests.state.replaying import replay_transaction

IDS = ["x", "y"]
PARTITIONS = [Partition("t", index) for index in range(3)]
TIMEOUT_MS = 1_000


@attrs.frozen
class Data:
    """A batch of a client and the transaction it belongs to."""

    partition: Partition
    producer: Producer
    tag: str


@attrs.define(eq=False)
class Client:
    """A producer with its responses, its transaction, and whether it waits for the end of that."""

    transactional_id: str
    producer: Producer
    version: int
    tag: str = ""
    written: int = 0
    is_ending: bool = False


@attrs.define(eq=False)
class WideEnd:
    """A wide transaction with markers still to append."""

    transactional_id: str
    markers: list
    decided_at: int
    """Number of entries at its decision."""


class Journal:
    """The appended entries, and the state of each partition."""

    def __init__(self, entries=()):
        self.entries = []
        self.producers = {partition: ProducerStates() for partition in PARTITIONS}
        for entry in entries:
            self.append(entry)

    def append(self, entry):
        """Append one entry; raise LogError if a partition would reject it."""
        offset = len(self.entries)
        if isinstance(entry, Data):
            states, (producer_id, epoch) = self.producers[entry.partition], attrs.astuple(entry.producer)
            states.check_without_sequence(producer_id, epoch)
            states.record(producer_id, epoch, ProducedBatch(-1, -1, offset, offset, 0), 0)
            states.open.setdefault(producer_id, offset)
        elif isinstance(entry, Marker):
            states, (producer_id, epoch) = self.producers[entry.partition], attrs.astuple(entry.producer)
            states.check_marker(producer_id, epoch, 0, entry.version)
            states.record_marker(producer_id, epoch, EndMarker(entry.committed, 0), offset, 0, 0)
        self.entries.append(entry)

    def fates(self):
        """Return the verdicts for the batches of each tag; None for a batch without a later marker."""
        fates, undecided = {}, {}
        for entry in self.entries:
            if isinstance(entry, Data):
                undecided.setdefault((entry.partition, entry.producer.producer_id), []).append(entry.tag)
            elif isinstance(entry, Marker):
                for tag in undecided.pop((entry.partition, entry.producer.producer_id), ()):
                    fates.setdefault(tag, set()).add(entry.committed)
        for tag in itertools.chain.from_iterable(undecided.values()):
            fates.setdefault(tag, set()).add(None)
        return fates


class Transactions(RuleBasedStateMachine):
    clients = Bundle("clients")
    coordinator_type = TransactionCoordinator

    def __init__(self):
        super().__init__()
        self.now_ms = 0
        self.ids = itertools.count()
        self.tags = itertools.count()
        self.told = 0
        self.promised = {}
        self.journal = Journal()
        self.wide_ends = []
        self.coordinator = self.make()

    @initialize(markers_at_once=st.sampled_from([1, 300]))
    def choose_what_is_wide(self, markers_at_once):
        self.coordinator = self.make(markers_at_once)

    def make(self, markers_at_once=300):
        settings = TransactionSettings(TIMEOUT_MS, math.inf, markers_at_once=markers_at_once)
        return self.coordinator_type(settings, TransactionUsage(), lambda: next(self.ids))

    def append(self, decision: Decision):
        for entry in decision.steps:
            self.journal.append(entry)
        if decision.later is not None:
            end = WideEnd(decision.transactional_id, list(decision.later), len(self.journal.entries))
            self.wide_ends.append(end)

    @rule(count=st.integers(1, len(PARTITIONS)))
    def mark(self, count):
        """Append some markers of a wide transaction; all are durable before it is completed."""
        if not self.wide_ends:
            return
        end = self.wide_ends[0]
        self.told = max(self.told, end.decided_at)
        for _ in range(min(count, len(end.markers))):
            self.journal.append(end.markers.pop(0))
        if not end.markers:
            self.wide_ends.pop(0)
            self.tell()
            self.append(self.coordinator.complete(end.transactional_id, self.now_ms))

    def mark_all(self):
        while self.wide_ends:
            self.mark(len(PARTITIONS))

    def tell(self):
        """Send a response: all entries so far become durable."""
        self.told = len(self.journal.entries)

    @rule(target=clients, transactional_id=st.sampled_from(IDS), version=st.sampled_from([0, 2]))
    def begin_to_use_an_id(self, transactional_id, version):
        for _ in range(3):
            decision = self.coordinator.init_producer_id(transactional_id, TIMEOUT_MS, None, self.now_ms)
            self.append(decision)
            self.tell()
            if decision.error is ErrorCode.NONE:
                return Client(transactional_id, decision.producer, version)
            self.mark_all()
        raise AssertionError("a retry succeeds")

    @rule(target=clients, client=clients)
    def go_on_after_an_error(self, client):
        decision = self.coordinator.init_producer_id(client.transactional_id, TIMEOUT_MS, client.producer, self.now_ms)
        self.append(decision)
        self.tell()
        if decision.error is not ErrorCode.NONE:
            return multiple()
        return Client(client.transactional_id, decision.producer, client.version)

    @rule(client=clients, partition=st.sampled_from(PARTITIONS), waits=st.booleans(), adds=st.booleans())
    def write(self, client, partition, waits, adds):
        """Produce: the batch adds the partition (version 2), or it was added before and is verified (version 0)."""
        if client.is_ending:
            return  # it must first learn the result of its transaction
        producer, name = client.producer, client.transactional_id
        if client.version == 0 and adds:
            self.append(self.coordinator.add_partitions(name, producer, [partition], 0, self.now_ms))
            self.tell()
        found = self.journal.producers[partition].open_transaction(producer.producer_id)
        decision = None
        if found is None or found.producer_epoch != producer.epoch:
            if client.version == 0:
                error = self.coordinator.verify_partitions(name, producer, [partition])[partition]
            else:
                decision = self.coordinator.add_partitions(name, producer, [partition], 2, self.now_ms)
                error = decision.error
            if error is not ErrorCode.NONE:
                return
        known = self.coordinator.get(name)
        if known.state not in PREPARED:  # else its batch precedes the marker and belongs to the ending transaction
            assert (known.producer_id, known.producer_epoch) == attrs.astuple(producer), "a fenced producer writes"
        tag = client.tag or f"{name}-{next(self.tags)}"
        if decision is not None:
            self.append(decision)
        try:
            self.journal.append(Data(partition, producer, tag))
        except LogError:
            return
        client.tag = tag
        client.written += 1
        if waits:
            self.tell()

    @rule(client=clients, committed=st.booleans(), waits=st.booleans())
    def end(self, client, committed, waits):
        decision = self.coordinator.end(
            client.transactional_id, client.producer, client.version, self.now_ms, committed=committed
        )
        self.append(decision)
        if decision.error is not ErrorCode.NONE or not waits:
            client.is_ending = client.is_ending or decision.error is ErrorCode.NONE
            return  # the client retries, or has disconnected
        self.tell()
        client.is_ending = False
        if decision.steps and client.tag:
            self.promised[client.tag] = committed
        if client.version >= 2:
            client.producer = decision.producer
        client.tag = ""

    @rule(client=clients, committed=st.booleans(), epochs_ago=st.integers(1, 3))
    def end_late(self, client, committed, epochs_ago):
        """Deliver an old request that was delayed."""
        past = Producer(client.producer.producer_id, client.producer.epoch - epochs_ago)
        before = self.coordinator.get(client.transactional_id)
        decision = self.coordinator.end(client.transactional_id, past, 2, self.now_ms, committed=committed)
        if before.producer_epoch != past.epoch:
            assert not decision.steps
            assert self.coordinator.get(client.transactional_id) is before

    @rule(passed_ms=st.sampled_from([1, TIMEOUT_MS // 2, TIMEOUT_MS + 1]))
    def time_passes(self, passed_ms):
        self.now_ms += passed_ms
        for decision in self.coordinator.timed_out(self.now_ms):
            self.append(decision)

    @rule(data=st.data())
    def crash(self, data):
        self.start_again(data.draw(st.integers(self.told, len(self.journal.entries)), label="kept"))

    def start_again(self, kept):
        """Restart after a crash that kept `kept` entries."""
        self.journal = Journal(self.journal.entries[:kept])
        self.wide_ends.clear()
        self.coordinator = self.make(self.coordinator.settings.markers_at_once)
        for entry in self.journal.entries:
            if isinstance(entry, StateRecord):
                replay_transaction(self.coordinator, entry)
        for decision in self.coordinator.unfinished(self.now_ms):
            for step in decision.steps:
                if isinstance(step, StateRecord) or self.is_open(step):
                    self.journal.append(step)
        self.tell()
        assert not any(known.state in PREPARED for known in self.coordinator)

    def is_open(self, marker):
        return self.journal.producers[marker.partition].open_transaction(marker.producer.producer_id) is not None

    @invariant()
    def no_transaction_is_both_committed_and_aborted(self):
        halves = [{True}, {False}, {None}] + [{True, None}, {False, None}] * bool(self.wide_ends)
        for tag, fates in self.journal.fates().items():
            assert fates in halves, (tag, fates)

    @invariant()
    def what_was_promised_holds(self):
        fates = self.journal.fates()
        for tag, committed in self.promised.items():
            decided = fates.get(tag, {committed}) - ({None} if self.wide_ends else set())
            assert decided <= {committed}, tag
            assert decided or self.wide_ends, tag

    @invariant()
    def what_is_undecided_is_known_to_the_coordinator(self):
        open_partitions = {
            (known.producer_id, partition) for known in self.coordinator for partition in known.partitions
        }
        for partition, states in self.journal.producers.items():
            for producer_id in states.open:
                assert (producer_id, partition) in open_partitions, "it would hang for ever"

    def teardown(self):
        """Check that no transaction stays undecided."""
        self.now_ms += TIMEOUT_MS + 1
        while late := self.coordinator.timed_out(self.now_ms):
            for decision in late:
                self.append(decision)
        self.mark_all()
        assert not any(states.open for states in self.journal.producers.values())
        assert all(fates in ({True}, {False}) for fates in self.journal.fates().values())


class NeverFinishes(TransactionCoordinator):
    def unfinished(self, now_ms):
        return []


class ForgetsToMark(TransactionCoordinator):
    """Completes a transaction after its first marker only."""

    def _end(self, *arguments):
        decision = super()._end(*arguments)
        markers = [step for step in decision.steps if isinstance(step, Marker)]
        later = None if decision.later is None else itertools.islice(decision.later, 1)
        return attrs.evolve(
            decision, steps=tuple(step for step in decision.steps if step not in markers[1:]), later=later
        )


class BelievesEveryEpoch(TransactionCoordinator):
    """Ends any open transaction for any client."""

    def end(self, transactional_id, producer, version, now_ms, *, committed):
        known = self.get(transactional_id)
        producer = Producer(known.producer_id, known.producer_epoch)
        return super().end(transactional_id, producer, version, now_ms, committed=committed)


class WritesTheRecordLast(TransactionCoordinator):
    """Appends markers before the decision."""

    def end(self, *arguments, **more):
        decision = super().end(*arguments, **more)
        return attrs.evolve(decision, steps=(*decision.steps[1:-1], *decision.steps[:1], *decision.steps[-1:]))


def crash_within_an_end(coordinator_type, committed, kept):
    """End a transaction over two partitions, and crash with some entries of its end."""
    machine = Transactions()
    machine.coordinator_type = coordinator_type
    machine.coordinator = machine.make()
    client = machine.begin_to_use_an_id(IDS[0], 2)
    for partition in PARTITIONS[:2]:
        machine.write(client, partition, waits=True, adds=True)
    before = len(machine.journal.entries)
    machine.end(client, committed, waits=False)
    if kept > len(machine.journal.entries) - before:
        return False
    machine.start_again(before + kept)
    machine.no_transaction_is_both_committed_and_aborted()
    machine.what_is_undecided_is_known_to_the_coordinator()
    machine.teardown()
    machine.no_transaction_is_both_committed_and_aborted()
    return True


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_interrupted_anywhere_has_one_verdict(committed):
    cuts = list(
        itertools.takewhile(lambda kept: crash_within_an_end(TransactionCoordinator, committed, kept), range(9))
    )
    assert len(cuts) >= 5, "decision, two markers, completion"


def test_markers_before_the_decision_are_found_out():
    with pytest.raises(AssertionError):
        [crash_within_an_end(WritesTheRecordLast, committed=True, kept=kept) for kept in range(4)]


@pytest.mark.parametrize("sabotaged", [NeverFinishes, ForgetsToMark, BelievesEveryEpoch])
def test_a_coordinator_that_is_wrong_is_found_out(sabotaged):
    class Sabotaged(Transactions):
        coordinator_type = sabotaged

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            Sabotaged,
            settings=settings(
                max_examples=1_000,
                stateful_step_count=40,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                report_multiple_bugs=False,
                print_blob=False,
            ),
        )


def test_no_crash_leaves_a_transaction_by_halves():
    """Cases 55 and 8."""
    run_state_machine_as_test(
        Transactions, settings=settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
    )
