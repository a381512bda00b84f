"""The history of the clients of a simulation, and its anomalies, named as in Jepsen's Kafka workload.

Checks: Each response belongs to its request. Acknowledged or visible records were synced. At the end a reader finds
each of them once, at its offset, in the order of its sender, and no refused record. Offsets and producer ids are
right. A stop ends in time and leaves no started request unanswered.

Rules of this file: it does no I/O. What a client is about to send is written down before it is sent; so every batch is
acknowledged, refused, or unknown, and the unknown may be there or not. Values are unique, so each tells where it is
from. A stream is what one client sent to one partition over one connection, or, of an idempotent producer, over all.
"""

import enum
import itertools
from collections import defaultdict

import attrs


class Fate(enum.Enum):
    UNKNOWN = enum.auto()
    ACKNOWLEDGED = enum.auto()
    REFUSED = enum.auto()


@attrs.define(eq=False)
class Sent:
    """One batch."""

    stream: str
    partition: int
    number: int
    values: tuple
    fate: Fate = Fate.UNKNOWN
    offset: int | None = None

    def acknowledge(self, offset):
        self.fate, self.offset = Fate.ACKNOWLEDGED, offset

    def refuse(self):
        self.fate = Fate.REFUSED


@attrs.frozen
class Read:
    """What one fetch gave of one partition; `position` is where it was asked to begin."""

    reader: str
    partition: int
    position: int
    records: tuple


class Register:
    """A value that one client writes again and again: it holds the last one acknowledged, or a later one."""

    def __init__(self, initial):
        self.sent = [initial]
        self.acknowledged = 0

    def send(self, value):
        self.sent.append(value)
        return len(self.sent) - 1

    def acknowledge(self, number):
        self.acknowledged = max(self.acknowledged, number)

    def may_be(self, value, not_before):
        return value in self.sent[not_before:]


class History:
    def __init__(self):
        self.sent = []
        self.reads = []
        self.commits = defaultdict(lambda: Register(-1))
        self.producer_ids = []
        self._numbers = defaultdict(itertools.count)

    def send(self, stream, partition, count, filler=b""):
        """The next batch of a stream to a partition, with values of its own."""
        number = next(self._numbers[stream, partition])
        name = f"{stream}/{partition}/{number}"
        values = tuple(f"{name}/{index}:".encode() + filler for index in range(count))
        self.sent.append(Sent(stream, partition, number, values))
        return self.sent[-1]

    def end_of_acknowledged(self, partition):
        """The offset behind the last acknowledged record, as far as is known now."""
        ends = (s.offset + len(s.values) for s in self.sent if s.partition == partition and s.offset is not None)
        return max(ends, default=0)


def anomalies(history, final):
    """Each anomaly, as a text; `final` is partition -> [(offset, value)], read after everything else."""
    return [
        *_gaps(final),
        *_inconsistent_offsets(history, final),
        *_lost_writes(history, final),
        *_aborted_reads(history, final),
        *_poll_order(history),
        *_send_order(history, final),
        *_producer_ids(history),
    ]


def _gaps(final):
    for partition, records in final.items():
        offsets = [offset for offset, _ in records]
        if offsets != list(range(len(offsets))):
            yield f"gap: partition {partition} has the offsets {offsets[:50]}"


def _inconsistent_offsets(history, final):
    """One offset with two values, and one value at two offsets, among all that was told and read."""
    values, offsets = defaultdict(set), defaultdict(set)

    def found(partition, offset, value):
        values[partition, offset].add(value)
        offsets[partition, value].add(offset)

    for sent in history.sent:
        if sent.fate is Fate.ACKNOWLEDGED:
            for index, value in enumerate(sent.values):
                found(sent.partition, sent.offset + index, value)
    for partition, records in final.items():
        for offset, value in records:
            found(partition, offset, value)
    for read in history.reads:
        for offset, value in read.records:
            found(read.partition, offset, value)
    for (partition, offset), several in values.items():
        if len(several) > 1:
            yield f"inconsistent-offsets: partition {partition} offset {offset} holds {sorted(several)}"
    for (partition, value), several in offsets.items():
        if len(several) > 1:
            yield f"duplicate: {value!r} is in partition {partition} at {sorted(several)}"


def _lost_writes(history, final):
    there = {(partition, *record) for partition, records in final.items() for record in records}
    for sent in history.sent:
        if sent.fate is Fate.ACKNOWLEDGED:
            for index, value in enumerate(sent.values):
                if (sent.partition, sent.offset + index, value) not in there:
                    yield f"lost-write: {value!r} was acknowledged at {sent.partition}:{sent.offset + index}"
    for read in history.reads:
        for record in read.records:
            if (read.partition, *record) not in there:
                yield f"lost-write: {read.reader} saw {record} in partition {read.partition}, and it is gone"


def _aborted_reads(history, final):
    """G1a: what was refused, or never sent, is there."""
    fates = {(sent.partition, value): sent.fate for sent in history.sent for value in sent.values}
    for partition, records in final.items():
        for offset, value in records:
            fate = fates.get((partition, value))
            if fate is None or fate is Fate.REFUSED:
                told = "never sent" if fate is None else "refused"
                yield f"aborted-read: {partition}:{offset} holds {value!r}, which was {told}"


def _poll_order(history):
    for read in history.reads:
        offsets = [offset for offset, _ in read.records]
        if offsets and (offsets != list(range(offsets[0], offsets[-1] + 1)) or not offsets[0] <= read.position):
            yield f"int-poll-skip: {read.reader} asked for {read.partition}:{read.position} and got {offsets}"


def _send_order(history, final):
    """What is there of a stream is a beginning of what was not refused, in its order, whole batches."""
    streams = defaultdict(list)
    for sent in history.sent:
        if sent.fate is not Fate.REFUSED:
            streams[sent.stream, sent.partition] += sent.values
    found = defaultdict(list)
    for partition, records in final.items():
        for _, value in records:
            found[value.split(b"/", 1)[0].decode(), partition].append(value)
    for stream, values in found.items():
        if values != streams[stream][: len(values)]:
            yield f"nonmonotonic-send: of {stream} there is {values}, sent was {streams[stream]}"


def _producer_ids(history):
    if len(set(history.producer_ids)) < len(history.producer_ids):
        yield f"an id of a producer was given out twice: {sorted(history.producer_ids)}"
