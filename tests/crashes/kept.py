"""What must be left of partitions whose records may go: by DeleteRecords, by retention, by compaction.

Rules of this file: one client at a time writes to a partition, one record a batch, and numbers its records in a header;
it notes each before it is sent. A record that got no answer may be there or not, and is not sent again.

The claims about a partition, each checked whenever it is read back:
- its start never falls, is not below what an acknowledged DeleteRecords asked for, and above that only by retention
- its end is behind every acknowledged record, and an acknowledged offset is not given to another record
- what is there was sent, as it was sent, in the order of sending, each record once
- an acknowledged record behind the start is there at its offset; where compaction is at work it may be gone when a
  later record of its key is there, or when that was a tombstone, and then nothing older of the key is there either
- without compaction there are no gaps
"""

import zlib
from collections import defaultdict

import attrs

NUMBER_HEADER = "number"
DELETED, RETAINED, COMPACTED = "deleted", "retained", "compacted"
"""How records go: on demand only, by retention too, by compaction only."""


@attrs.frozen
class Sent:
    """One record, its value as a checksum only, so that a long run fits into memory."""

    key: bytes | None
    checksum: int
    is_tombstone: bool


@attrs.frozen
class Found:
    """One record that was read back."""

    offset: int
    number: int
    key: bytes | None
    value: bytes | None


@attrs.frozen
class Held:
    """What a partition holds: where it started before and after it was read, its end, and its records."""

    start_before: int
    start_after: int
    end: int
    records: list


def checksum(value):
    return 0 if value is None else zlib.crc32(value)


class KeptPartition:
    """What the writer of one partition sent and was told."""

    def __init__(self, topic, index, policy=DELETED):
        self.topic, self.index, self.policy = topic, index, policy
        self.sent = {}
        self.next_number = 0
        self.acknowledged = {}
        self.start_min = 0
        self.start_sent = 0

    def __repr__(self):
        return f"{self.topic}-{self.index}"

    def send(self, key, value):
        """The number of a record that is about to be sent."""
        number = self.next_number
        self.next_number += 1
        self.sent[number] = Sent(key, checksum(value), value is None)
        return number

    def send_start(self, offset):
        """DeleteRecords is about to be asked for."""
        self.start_sent = max(self.start_sent, offset)

    def acknowledge_start(self, offset):
        """It was acknowledged."""
        self.start_min = max(self.start_min, offset)

    def violations(self, held):
        """Each claim that does not hold, as a text; remembers the start that was seen."""
        found = [f"{self}: {text}" for check in CHECKS for text in check(self, held)]
        self.start_min = max(self.start_min, held.start_after)
        return found

    def forget(self):
        """Let go of what is known of records in front of the start, once nobody writes: it was checked."""
        left = {number: offset for number, offset in self.acknowledged.items() if offset >= self.start_min}
        if left and self.policy != COMPACTED:
            self.acknowledged = left
            self.sent = {number: sent for number, sent in self.sent.items() if number >= min(left)}


def _start(kept, held):
    if held.start_before < kept.start_min or held.start_after < held.start_before:
        yield f"the log starts at {held.start_before}, then {held.start_after}, but was at {kept.start_min} before"
    if kept.policy != RETAINED and held.start_after > kept.start_sent:
        yield f"the log starts at {held.start_after}, and nobody asked for more than {kept.start_sent}"


def _end(kept, held):
    if kept.acknowledged and held.end <= max(kept.acknowledged.values()):
        yield f"the end {held.end} is not behind the last acknowledged offset {max(kept.acknowledged.values())}"


def _as_sent(kept, held):
    for record in held.records:
        if kept.sent.get(record.number) != Sent(record.key, checksum(record.value), record.value is None):
            yield f"nobody sent record {record.number} with key {record.key!r}, which is at offset {record.offset}"
        if kept.acknowledged.get(record.number, record.offset) != record.offset:
            told = kept.acknowledged[record.number]
            yield f"record {record.number} was acknowledged at offset {told} and is at {record.offset}"
    for first, second in zip(held.records, held.records[1:], strict=False):
        if second.number <= first.number or second.offset <= first.offset:
            yield f"record {second.number} is at {second.offset} behind {first.number} at {first.offset}"
    if len(set(kept.acknowledged.values())) < len(kept.acknowledged):
        yield "an offset was given to two records"


def _gaps(kept, held):
    offsets = [record.offset for record in held.records]
    if kept.policy != COMPACTED and offsets and offsets != list(range(offsets[0], held.end)):
        yield f"the offsets from {offsets[0]} to {held.end} have gaps"


def _lost(kept, held):
    present = {record.number for record in held.records}
    latest = {}
    for record in held.records:
        latest[record.key] = record.number
    sent_tombstones = defaultdict(list)
    for number, sent in kept.sent.items():
        if sent.is_tombstone:
            sent_tombstones[sent.key].append(number)
    for number, offset in kept.acknowledged.items():
        if offset < held.start_after or number in present:
            continue
        key = kept.sent[number].key
        if kept.policy == COMPACTED and (
            latest.get(key, -1) > number
            or (key not in latest and any(tombstone >= number for tombstone in sent_tombstones[key]))
        ):
            continue
        yield f"record {number} with key {key!r} was acknowledged at offset {offset}, and it is not there"


CHECKS = (_start, _end, _as_sent, _gaps, _lost)
