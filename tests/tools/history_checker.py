"""Checks what clients of a log were told for the anomalies that Jepsen's Kafka workload names.

Rules of this file: it does no I/O and knows nothing of brokers. A history is a list of operations in the order in which
they ended. Every value is sent once. An operation that failed did not happen, one of unknown fate may have; it counts
as committed once one of its values was read. Gaps between offsets are no anomaly: transactions leave markers there.

| anomaly | what it is |
|---|---|
| inconsistent-offsets | one offset holds two values |
| duplicate | one value is at two offsets |
| lost-write | a committed value is missing though a later one was read |
| unseen | an acknowledged value was never read (only where the history ends with a full read) |
| G1a | a value was read that was not sent, or whose sending failed or was aborted |
| precommitted-read | a transaction polled what it had written itself |
| poll-skip, nonmonotonic-poll | the next poll of a consumer jumps over records, or goes back |
| int-poll-skip, int-nonmonotonic-poll | the same within one poll |
| nonmonotonic-send | a later operation's value of the same producer lies before an earlier one's |
| int-nonmonotonic-send | the same within one operation |
| int-send-skip | values of others lie between two of one operation |
| G0 | operations wrote in one order here and in the other there |
| G1c | operations read from each other in a circle |
"""

import graphlib
import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator

import attrs

Key = Hashable
Value = Hashable

OK, UNKNOWN, FAILED = "ok", "unknown", "failed"
SEND, POLL, TRANSACTION, ASSIGN, SUBSCRIBE = "send", "poll", "transaction", "assign", "subscribe"

#: Nobody is isolated from the writes of others.
ALWAYS_ALLOWED = frozenset({"int-send-skip", "G0"})
#: A rebalance moves positions.
ALLOWED_WITH_SUBSCRIBE = frozenset({"poll-skip", "nonmonotonic-poll"})


@attrs.frozen
class Send:
    """One value for one partition, and the offset that was told."""

    key: Key
    value: Value
    offset: int | None = None


@attrs.frozen
class Poll:
    """What one poll gave: key -> [(offset, value)]."""

    records: dict[Key, list[tuple[int, Value]]]


@attrs.frozen(eq=False)
class Operation:
    """What one process did; a transaction has several steps, an assignment or subscription has keys only."""

    process: Hashable
    kind: str
    steps: tuple[Send | Poll, ...] = ()
    fate: str = OK
    keys: frozenset[Key] = frozenset()
    #: Partitions that came or went in the meantime: what is read of them is not compared with what was read before.
    rebalanced: frozenset[Key] = frozenset()

    @property
    def sends(self) -> Iterator[Send]:
        return (step for step in self.steps if isinstance(step, Send))

    @property
    def reads(self) -> dict[Key, list[tuple[int, Value]]]:
        """All its polls together."""
        found: dict[Key, list[tuple[int, Value]]] = defaultdict(list)
        for step in self.steps:
            if isinstance(step, Poll):
                for key, records in step.records.items():
                    found[key] += records
        return found


@attrs.frozen
class Anomaly:
    name: str
    what: str


def anomalies(history: Iterable[Operation], *, ends_with_full_read: bool = True) -> list[Anomaly]:
    """Everything that can be found."""
    facts = _Facts(list(history))
    found = [
        *_inconsistent_offsets(facts),
        *_duplicates(facts),
        *_lost_writes(facts),
        *_reads_of_what_is_not(facts),
        *_polls(facts),
        *_sends(facts),
        *_circles(facts),
    ]
    return [*found, *_unseen(facts)] if ends_with_full_read else found


def forbidden(found: Iterable[Anomaly], *, subscribes: bool = False) -> list[Anomaly]:
    """Those that must not be, given how consumers get their partitions."""
    allowed = ALWAYS_ALLOWED | (ALLOWED_WITH_SUBSCRIBE if subscribes else frozenset())
    return [anomaly for anomaly in found if anomaly.name not in allowed]


class _Facts:
    """What a history says of the logs, put together once."""

    def __init__(self, history: list[Operation]) -> None:
        self.history = history
        self.writers = {(send.key, send.value): op for op in history for send in op.sends}
        self.seen: dict[Key, set[Value]] = defaultdict(set)
        for operation in history:
            if operation.fate == OK:
                for key, records in operation.reads.items():
                    self.seen[key].update(value for _, value in records)
        self.logs: dict[Key, dict[int, set[Value]]] = defaultdict(lambda: defaultdict(set))
        for operation in history:
            self._note(operation)
        # (key, value) -> its places, as ranks: offsets may have gaps
        self.places: dict[tuple[Key, Value], list[int]] = defaultdict(list)
        for key, log in self.logs.items():
            for rank, offset in enumerate(sorted(log)):
                for value in log[offset]:
                    self.places[key, value].append(rank)

    def _note(self, operation: Operation) -> None:
        # polls tell what is in the log whatever became of the operation that they were part of
        for key, records in operation.reads.items():
            for offset, value in records:
                self.logs[key][offset].add(value)
        if self.is_committed(operation):
            for send in operation.sends:
                if send.offset is not None:
                    self.logs[send.key][send.offset].add(send.value)

    def is_committed(self, operation: Operation) -> bool:
        if operation.fate == UNKNOWN:
            return any(send.value in self.seen[send.key] for send in operation.sends)
        return operation.fate == OK

    def distance(self, key: Key, one: Value, other: Value) -> int | None:
        """How many places the other value lies behind the one, None where that is not known."""
        places = self.places.get((key, one)), self.places.get((key, other))
        return None if places[0] is None or places[1] is None else places[1][0] - places[0][0]


def _inconsistent_offsets(facts: _Facts) -> Iterator[Anomaly]:
    for key, log in facts.logs.items():
        for offset, values in log.items():
            if len(values) > 1:
                yield Anomaly("inconsistent-offsets", f"{key}: offset {offset} holds {sorted(map(repr, values))}")


def _duplicates(facts: _Facts) -> Iterator[Anomaly]:
    for (key, value), ranks in facts.places.items():
        if len(ranks) > 1:
            yield Anomaly("duplicate", f"{key}: {value!r} is there {len(ranks)} times")


def _lost_writes(facts: _Facts) -> Iterator[Anomaly]:
    for key, seen in facts.seen.items():
        bound = max((facts.places[key, value][0] for value in seen), default=-1)
        for (other, value), ranks in facts.places.items():
            if other != key or ranks[-1] > bound or value in seen:
                continue
            writer = facts.writers.get((key, value))
            if writer is not None and facts.is_committed(writer):
                yield Anomaly("lost-write", f"{key}: {value!r} is missing, and something behind it was read")


def _unseen(facts: _Facts) -> Iterator[Anomaly]:
    for (key, value), writer in facts.writers.items():
        if writer.fate == OK and value not in facts.seen[key]:
            yield Anomaly("unseen", f"{key}: {value!r} was acknowledged and never read")


def _reads_of_what_is_not(facts: _Facts) -> Iterator[Anomaly]:
    for operation in facts.history:
        if operation.fate != OK:
            continue
        for key, records in operation.reads.items():
            for _, value in records:
                writer = facts.writers.get((key, value))
                if writer is None:
                    yield Anomaly("G1a", f"{key}: {value!r} was read, and nobody sent it")
                elif writer.fate == FAILED:
                    yield Anomaly("G1a", f"{key}: {value!r} was read, and its sending failed")
                elif writer is operation:
                    yield Anomaly("precommitted-read", f"{key}: {value!r} was read by the transaction that wrote it")


def _polls(facts: _Facts) -> Iterator[Anomaly]:
    last: dict[Hashable, dict[Key, Value]] = defaultdict(dict)
    for operation in facts.history:
        positions = last[operation.process]
        if operation.kind in {ASSIGN, SUBSCRIBE}:
            if operation.fate == OK:
                last[operation.process] = {key: value for key, value in positions.items() if key in operation.keys}
            continue
        for key, records in operation.reads.items():
            values = [value for _, value in records]
            if key not in operation.rebalanced:
                for one, other in itertools.pairwise(values):
                    yield from _step(facts, key, (one, other), "int-poll-skip", "int-nonmonotonic-poll")
                if operation.fate == OK and values and key in positions:
                    yield from _step(facts, key, (positions[key], values[0]), "poll-skip", "nonmonotonic-poll")
            if operation.fate == OK and values:
                positions[key] = values[-1]


def _sends(facts: _Facts) -> Iterator[Anomaly]:
    last: dict[tuple[Hashable, Key], Value] = {}
    for operation in facts.history:
        if operation.fate == FAILED:
            continue
        values: dict[Key, list[Value]] = defaultdict(list)
        for send in operation.sends:
            values[send.key].append(send.value)
        for key, sent in values.items():
            for one, other in itertools.pairwise(sent):
                yield from _step(facts, key, (one, other), "int-send-skip", "int-nonmonotonic-send")
            if (before := last.get((operation.process, key))) is not None:
                yield from _step(facts, key, (before, sent[0]), None, "nonmonotonic-send")
            last[operation.process, key] = sent[-1]


def _step(facts: _Facts, key: Key, pair: tuple[Value, Value], skip: str | None, back: str) -> Iterator[Anomaly]:
    """Two values that follow each other for a client should do so in the log."""
    distance = facts.distance(key, *pair)
    if distance is None:
        return
    if distance < 1:
        yield Anomaly(back, f"{key}: {pair[1]!r} after {pair[0]!r}, and it does not lie behind it")
    elif distance > 1 and skip is not None:
        yield Anomaly(skip, f"{key}: {pair[1]!r} right after {pair[0]!r}, and {distance - 1} lie between them")


def _circles(facts: _Facts) -> Iterator[Anomaly]:
    """Of each kind of dependency one circle is told, if there is any."""
    read_from: dict[int, set[int]] = defaultdict(set)
    written_after: dict[int, set[int]] = defaultdict(set)
    names = {id(operation): f"{operation.process}'s operation {n}" for n, operation in enumerate(facts.history)}
    for operation in facts.history:
        if operation.fate == FAILED:
            continue
        for key, records in operation.reads.items():
            writer = facts.writers.get((key, records[-1][1])) if records else None
            if writer is not None and writer is not operation:
                read_from[id(operation)].add(id(writer))
    for key, log in facts.logs.items():
        found = [facts.writers.get((key, value)) for offset in sorted(log) for value in log[offset]]
        for one, other in itertools.pairwise([writer for writer in found if writer is not None]):
            if one is not other:
                written_after[id(other)].add(id(one))
    for name, graph in (("G1c", read_from), ("G0", written_after)):
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            yield Anomaly(name, " <- ".join(names[number] for number in error.args[1]))
