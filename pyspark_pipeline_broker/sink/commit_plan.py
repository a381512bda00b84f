"""The exactly-once commit of a batch of a stream: the decisions, without I/O.

Every task writes in a transaction of its own and leaves it open. The driver then commits the batch:

1. It begins a transaction with the sink's transactional id, which fences every other driver of this sink.
2. It reads the ledger: the last batch that any driver decided to commit.
3. It records this batch in the ledger, with the producers of all tasks. From here on the batch is decided.
4. It commits the transactions of the tasks, and records that all are committed.

A driver that dies before step 3 leaves open transactions, which the next run aborts. One that dies after it leaves a
decided batch: the next run commits its open transactions, and aborts its own second try of the batch. Tasks of
different runs and attempts have different transactional ids, so a second try never aborts a decided transaction. If the
broker aborted some transactions of a decided batch after `transaction.timeout.ms` and others are committed, no run can
repair that; the query stops with an error.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping

import attrs

from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.transaction_state import ProducerIdentity, TransactionDescription

__all__ = ["BatchId", "Fate", "LedgerEntry", "Step", "check_open", "fate_of", "plan", "task_prefix", "task_transaction"]

OPEN_STATE = "Ongoing"
COMMITTED_STATES = frozenset({"PrepareCommit", "CompleteCommit"})
TIME_LEFT_MS_MIN = 2_000
"""A transaction that the broker aborts sooner is not decided any more: its commit could come too late."""


@attrs.frozen
class BatchId:
    """A batch of a stream.

    Attributes:
        query_id: of the checkpoint.
        run_id: of one start of the query.
        number: counts from 0 in a checkpoint.
    """

    query_id: str
    run_id: str
    number: int


@attrs.frozen
class LedgerEntry:
    """A decided batch.

    Attributes:
        batch: which.
        producers: of the transactions of its tasks.
        is_complete: all of them are committed.
    """

    batch: BatchId
    producers: tuple[ProducerIdentity, ...]
    is_complete: bool

    def encoded(self) -> bytes:
        """The entry as JSON."""
        producers = [attrs.astuple(producer) for producer in self.producers]
        found = {**attrs.asdict(self.batch), "producers": producers, "is_complete": self.is_complete}
        return json.dumps(found, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, data: bytes) -> LedgerEntry:
        """Read an entry; raises ClientError for anything else."""
        try:
            found = json.loads(data)
            batch = BatchId(str(found["query_id"]), str(found["run_id"]), int(found["number"]))
            producers = tuple(
                ProducerIdentity(str(name), int(it), int(epoch)) for name, it, epoch in found["producers"]
            )
            return cls(batch, producers, bool(found["is_complete"]))
        except (KeyError, TypeError, ValueError):
            raise ClientError("the topic of committed batches has a record that this sink did not write") from None


class Fate(enum.Enum):
    """The state of a task's transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Step(enum.Enum):
    """The handling of the last decided batch and of the new one."""

    COMMIT = "commit the new batch"
    FINISH_AND_COMMIT = "finish the decided batch, then commit the new one"
    SKIP = "the new batch is committed already"
    FINISH_AND_SKIP = "finish the decided batch, which the new one repeats"


def task_prefix(sink_id: str) -> str:
    """The beginning of the transactional ids of all tasks of a sink."""
    return f"{sink_id}/spark/"


def task_transaction(sink_id: str, batch: BatchId, task: int, attempt: int) -> str:
    """The transactional id of a try of a task; batches of a run use it in turn."""
    return f"{task_prefix(sink_id)}{batch.run_id}/{task}/{attempt}"


def fate_of(producer: ProducerIdentity, description: TransactionDescription | None) -> Fate:
    """Return the state of a transaction.

    Args:
        producer: of a task that wrote.
        description: by the coordinator; None: it does not know the transactional id any more.
    """
    if description is None:
        return Fate.UNKNOWN
    if (description.producer_id, description.producer_epoch) != (producer.producer_id, producer.epoch):
        return Fate.ABORTED  # the coordinator raises the epoch where it aborts by itself
    if description.state == OPEN_STATE:
        return Fate.OPEN
    return Fate.COMMITTED if description.state in COMMITTED_STATES else Fate.ABORTED


def plan(last: LedgerEntry | None, batch: BatchId, fates: Mapping[ProducerIdentity, Fate]) -> Step:
    """Decide what to do with a batch whose tasks are done.

    Args:
        last: the last decided batch, if any.
        batch: the new one.
        fates: of the transactions of `last`, if it is not complete.

    Raises:
        ClientError: rows would be missing or doubled.
    """
    if last is None:
        return Step.COMMIT
    is_same_query = last.batch.query_id == batch.query_id
    if is_same_query and last.batch.number > batch.number:
        raise ClientError(
            f"the sink has committed batch {last.batch.number} of this query, and its checkpoint is at batch "
            f"{batch.number}. Restore the checkpoint, or start with a new checkpoint and another transactional.id"
        )
    is_again = is_same_query and last.batch.number == batch.number
    if last.is_complete:
        return Step.SKIP if is_again else Step.COMMIT
    found = set(fates.values())
    if found <= {Fate.ABORTED}:
        return Step.COMMIT  # no reader has seen a row of it
    if found <= {Fate.OPEN, Fate.COMMITTED}:
        return Step.FINISH_AND_SKIP if is_again else Step.FINISH_AND_COMMIT
    counts = ", ".join(f"{sum(it is fate for it in fates.values())} {fate.value}" for fate in Fate if fate in found)
    raise ClientError(
        f"batch {last.batch.number} was decided, but of the transactions of its tasks are {counts}: the broker aborted "
        "them after kafka.transaction.timeout.ms. Its rows are partly written; check the topic, then continue with "
        "another transactional.id"
    )


def check_open(
    producers: Iterable[ProducerIdentity], found: Mapping[ProducerIdentity, TransactionDescription | None], now_ms: int
) -> None:
    """Raise ClientError unless the transactions of all tasks are open, and will be for a while."""
    for producer in producers:
        description = found[producer]
        if fate_of(producer, description) is not Fate.OPEN or description is None:
            reason = "was ended by the broker or another task before the batch was committed"
        elif (description.started_ms or now_ms) + description.timeout_ms - now_ms < TIME_LEFT_MS_MIN:
            reason = "is about to be aborted by the broker"
        else:
            continue
        raise ClientError(
            f"transaction {producer.transactional_id} {reason}. Restart the query, which writes the batch again; if it "
            "takes longer than kafka.transaction.timeout.ms, raise that or make batches smaller"
        )
