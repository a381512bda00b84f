"""The history of transactional producers, and its errors.

Checks: Committed transactions are complete, others invisible. The last stable offset and epochs never fall. Fenced
producers are refused.

Rules of this file: it does no I/O. What a producer is about to send is written down before it is sent; a transaction is
committed when it was told so, may be committed when it asked for it and was told nothing, and is aborted otherwise,
whatever became of its producer. Values are unique, so each tells where it is from.
"""

import itertools
from collections import defaultdict

import attrs

TRANSFERS = "transfers"
"""The topic that transactions write to; nobody else does."""


@attrs.define(eq=False)
class Batch:
    """One batch of a transaction; `offset` is where it was acknowledged."""

    partition: int
    values: tuple
    offset: int | None = None

    def refuse(self):
        """Its handler raised, and it was not appended: its producer is told, and ends the transaction."""


@attrs.define(eq=False)
class Transaction:
    """What was sent between two ends.

    Attributes:
        is_committed: what its producer was told; None for nothing.
        may_be_committed: a request to commit it was sent, and its answer did not come.
    """

    name: str
    batches: list = attrs.field(factory=list)
    is_committed: bool | None = None
    may_be_committed: bool = False

    def send(self, partition, count):
        number = len(self.batches)
        values = tuple(f"{self.name}/{number}/{index}".encode() for index in range(count))
        self.batches.append(Batch(partition, values))
        return self.batches[-1]


@attrs.frozen
class CommittedRead:
    """What one fetch of committed records gave of a partition, from `position` to `end`."""

    reader: str
    partition: int
    position: int
    end: int
    records: tuple


class Transfers:
    """All that was told about transactions.

    Attributes:
        owners: transactional id -> (producer id, epoch), the latest that anybody was told.
        stable: partition -> the furthest last stable offset that anybody was told.
        ends: partition -> the furthest high watermark, likewise.
    """

    def __init__(self):
        self.transactions = []
        self.reads = []
        self.owners = {}
        self.stable = defaultdict(int)
        self.ends = defaultdict(int)
        self._numbers = defaultdict(itertools.count)

    def begin(self, producer):
        self.transactions.append(Transaction(f"{producer}/{next(self._numbers[producer])}"))
        return self.transactions[-1]

    def taken_over(self, transactional_id, producer, before):
        """A producer was told that an id is its own, and `before` had it when it asked; what is wrong, as texts."""
        if before is not None and (producer[0] != before[0] or producer[1] <= before[1]):
            yield f"fencing: {transactional_id} was given to {producer}, and {before} had it before"
        self.owns(transactional_id, producer)

    def owns(self, transactional_id, producer):
        known = self.owners.get(transactional_id)
        self.owners[transactional_id] = producer if known is None else max(known, producer)


def transfer_anomalies(transfers, final):
    """Each anomaly, as a text; `final` is partition -> [(offset, value)], all committed records in the end."""
    return [*_endings(transfers, final), *_strangers(transfers, final), *_reads(transfers, final)]


def _endings(transfers, final):
    there = {value: (partition, offset) for partition, records in final.items() for offset, value in records}
    for transaction in transfers.transactions:
        values = [value for batch in transaction.batches for value in batch.values]
        seen = [value for value in values if value in there]
        if transaction.is_committed:
            for batch in transaction.batches:
                places = [there.get(value) for value in batch.values]
                due = [(batch.partition, batch.offset + index) for index in range(len(batch.values))]
                if places != due:
                    yield f"committed-lost: {batch.values} is at {places}, and its commit was told with {due}"
        elif seen and (transaction.is_committed is False or not transaction.may_be_committed):
            yield f"aborted-seen: {seen} of a transaction that was not committed"
        elif seen and seen != values:
            yield f"torn-transaction: of {values} there is {seen}"


def _strangers(transfers, final):
    sent = {(b.partition, value) for one in transfers.transactions for b in one.batches for value in b.values}
    for partition, records in final.items():
        values = [value for _, value in records]
        if len(set(values)) < len(values):
            yield f"committed-twice: partition {partition} holds {values}"
        for offset, value in records:
            if (partition, value) not in sent:
                yield f"aborted-seen: {partition}:{offset} holds {value!r}, which was never sent"


def _reads(transfers, final):
    """What is read of committed records is decided: all of it, in order, and nothing else, for ever."""
    for read in transfers.reads:
        due = tuple(record for record in final.get(read.partition, ()) if read.position <= record[0] < read.end)
        if read.records != due:
            yield (
                f"undecided-read: {read.reader} read {read.partition}:{read.position} to {read.end} and got"
                f" {read.records}; committed is {due}"
            )
