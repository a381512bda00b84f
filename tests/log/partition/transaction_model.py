"""The model of a log with transactions: every answer is computed from the whole history of appended batches.

It keeps no other state, so no answer can be stale.
"""

import attrs

REMEMBERED = 5
WRAP = 1 << 31


@attrs.frozen
class Data:
    """A batch that was appended: by a client, with a sequence, or by a coordinator without one."""

    base_offset: int
    values: tuple
    producer: int
    epoch: int
    sequence: int
    is_transactional: bool
    timestamp: int

    @property
    def last_offset(self):
        return self.base_offset + len(self.values) - 1

    @property
    def last_sequence(self):
        return -1 if self.sequence < 0 else (self.sequence + len(self.values) - 1) % WRAP


@attrs.frozen
class Marker:
    """The end of a transaction."""

    base_offset: int
    producer: int
    epoch: int
    coordinator_epoch: int
    is_commit: bool
    timestamp: int

    @property
    def last_offset(self):
        return self.base_offset


@attrs.define
class Producer:
    """The state of a producer according to the history."""

    epoch: int
    batches: list = attrs.Factory(list)
    coordinator_epoch: int = -1
    timestamp: int = -1
    open_since: int = -1


def producers(story):
    """All producers by id."""
    known = {}
    for it in story:
        if it.producer < 0:
            continue
        producer = known.setdefault(it.producer, Producer(it.epoch))
        if it.epoch != producer.epoch:
            producer.epoch, producer.batches = it.epoch, []
        producer.timestamp = it.timestamp
        if isinstance(it, Marker):
            producer.coordinator_epoch, producer.open_since = it.coordinator_epoch, -1
            continue
        producer.batches.append(it)
        if it.is_transactional and producer.open_since < 0:
            producer.open_since = it.base_offset
    return known


def described(story):
    return {
        (
            key,
            it.epoch,
            it.batches[-1].last_sequence if it.batches else -1,
            it.timestamp,
            it.coordinator_epoch,
            it.open_since,
        )
        for key, it in producers(story).items()
    }


def end_of(story):
    """Return the offset after the last batch."""
    return story[-1].last_offset + 1 if story else 0


def last_stable_offset(durable, start):
    """Return the offset below which all durable batches are decided."""
    opened = [it.open_since for it in producers(durable).values() if it.open_since >= 0]
    return max(min([end_of(durable), *opened]), start)


def decide_data(story, producer_id, epoch, sequence, count, *, is_transactional, starts_at_zero):
    """`append`, or the offset of the original, or the name of the error: the rules in Kafka's order."""
    producer = producers(story).get(producer_id)
    last = (sequence + count - 1) % WRAP
    if producer is not None and producer.epoch == epoch:
        for it in producer.batches[-REMEMBERED:]:
            if (it.sequence, it.last_sequence) == (sequence, last):
                return it.base_offset
    if producer is not None and epoch < producer.epoch:
        return "INVALID_PRODUCER_EPOCH"
    if starts_at_zero and sequence != 0 and (producer is None or not producer.batches):
        return "OUT_OF_ORDER_SEQUENCE_NUMBER"
    if producer is not None:
        current = producer.batches if epoch == producer.epoch else []
        expected = (current[-1].last_sequence + 1) % WRAP if current else 0
        if sequence != expected:
            return "OUT_OF_ORDER_SEQUENCE_NUMBER"
        if producer.open_since >= 0 and not is_transactional:
            return "INVALID_TXN_STATE"
    return "append"


def decide_marker(story, producer_id, epoch, coordinator_epoch, version):
    """`append` or the name of the error."""
    producer = producers(story).get(producer_id)
    if producer is None:
        return "append"
    is_late = epoch < producer.epoch
    if version >= 2 and epoch == producer.epoch and producer.open_since >= 0:
        is_late = True
    if is_late:
        return "INVALID_PRODUCER_EPOCH"
    return "TRANSACTION_COORDINATOR_FENCED" if coordinator_epoch < producer.coordinator_epoch else "append"


def transactions(story):
    """All that have ended: producer id, first offset, marker."""
    opened, ended = {}, []
    for it in story:
        if isinstance(it, Data):
            if it.is_transactional:
                opened.setdefault(it.producer, it.base_offset)
        elif it.producer in opened:
            ended.append((it.producer, opened.pop(it.producer), it))
    return ended


def aborted(story, first_offset, end_offset):
    """Producer id and first and last offset of those that concern a reader, in the order of their markers."""
    return [
        (producer, first, marker.base_offset)
        for producer, first, marker in transactions(story)
        if not marker.is_commit and first < end_offset and marker.base_offset >= first_offset
    ]


def committed(durable, start):
    """Offset and value of every record that a reader of committed records gets: in order, each once."""
    stable = last_stable_offset(durable, start)
    dropped = [
        (producer, first, marker.base_offset)
        for producer, first, marker in transactions(durable)
        if not marker.is_commit
    ]
    found = []
    for it in durable:
        if isinstance(it, Marker):
            continue
        if it.is_transactional and any(p == it.producer and f <= it.base_offset <= m for p, f, m in dropped):
            continue
        found += [(it.base_offset + place, value) for place, value in enumerate(it.values)]
    return [(offset, value) for offset, value in found if start <= offset < stable]
