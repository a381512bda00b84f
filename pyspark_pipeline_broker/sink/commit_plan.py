"""The exactly-once commit of a stream's batch: the decisions, without I/O.

Every task writes in a transaction of its own and leaves it open. The driver then commits the batch:

1. It begins a transaction with the sink's transactional id, which fences all other drivers of this sink.
2. It reads the ledger: the last batch that a driver decided to commit.
3. It records this batch in the ledger, with the producers of all tasks. Now the batch is decided.
4. It commits the transactions of the tasks, and records that all are committed.

If a driver dies before step 3, its transactions stay open and the next run aborts them. If it dies after step 3, the
next run commits the open transactions of the decided batch. It aborts its own second attempt of that batch. Tasks of
different runs and attempts have different transactional ids, so a second attempt never aborts a decided transaction.

One case cannot be repaired: the broker aborted some transactions of a decided batch after `transaction.timeout.ms`,
and others are committed. The query then stops with an error.
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
"""Time that a transaction must have left. The commit of a decided batch must not arrive after the broker's abort."""


@attrs.frozen
class BatchId:
    """The identity of a stream's batch.

    Attributes:
        query_id: identifies the checkpoint.
        run_id: identifies one start of the query.
        number: counts from 0 in a checkpoint.
    """

    query_id: str
    run_id: str
    number: int


@attrs.frozen
class LedgerEntry:
    """A decided batch.

    Attributes:
        producers: the producers of its tasks' transactions.
        is_complete: all transactions are committed.
    """

    batch: BatchId
    producers: tuple[ProducerIdentity, ...]
    is_complete: bool

    def encoded(self) -> bytes:
        producers = [attrs.astuple(producer) for producer in self.producers]
        found = {**attrs.asdict(self.batch), "producers": producers, "is_complete": self.is_complete}
        return json.dumps(found, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, data: bytes) -> LedgerEntry:
        """Decode an entry; raises ClientError if `data` is not an encoded entry."""
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
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Step(enum.Enum):
    """The next actions for a new batch, given the last decided one."""

    COMMIT = "commit the new batch"
    FINISH_AND_COMMIT = "finish the decided batch, then commit the new one"
    SKIP = "the new batch is committed already"
    FINISH_AND_SKIP = "finish the decided batch, which the new one repeats"


def task_prefix(sink_id: str) -> str:
    return f"{sink_id}/spark/"


def task_transaction(sink_id: str, batch: BatchId, task: int, attempt: int) -> str:
    """Return the transactional id of one attempt of a task. The batches of a run use it one after the other."""
    return f"{task_prefix(sink_id)}{batch.run_id}/{task}/{attempt}"


def fate_of(producer: ProducerIdentity, description: TransactionDescription | None) -> Fate:
    """Return the state of a transaction.

    Args:
        description: from the coordinator; None if it no longer knows the transactional id.
    """
    if description is None:
        return Fate.UNKNOWN
    if (description.producer_id, description.producer_epoch) != (producer.producer_id, producer.epoch):
        return Fate.ABORTED  # the coordinator bumps the epoch when it aborts a timed-out transaction
    if description.state == OPEN_STATE:
        return Fate.OPEN
    # PrepareCommit counts as committed: the coordinator completes it whatever happens to its clients.
    return Fate.COMMITTED if description.state in COMMITTED_STATES else Fate.ABORTED


def plan(last: LedgerEntry | None, batch: BatchId, fates: Mapping[ProducerIdentity, Fate]) -> Step:
    """Return the next step for a batch after its tasks are done.

    Args:
        last: the last decided batch, if any.
        batch: the new batch.
        fates: the states of the transactions of `last`, unless it is complete.

    Raises:
        ClientError: every step would lose or duplicate rows. Either the query's checkpoint is older than `last`, or
            the transactions of `last` are neither all aborted nor all open or committed.
    """
    if last is None:
        return Step.COMMIT
    is_same_query = last.batch.query_id == batch.query_id
    # The checkpoint was restored to an earlier state; writing the batch again would duplicate its rows.
    if is_same_query and last.batch.number > batch.number:
        raise ClientError(
            f"the sink has reached batch {last.batch.number} of this query, but the checkpoint is at batch "
            f"{batch.number}. Restore the latest checkpoint, or start with a new checkpoint and another "
            "transactional.id"
        )
    is_again = is_same_query and last.batch.number == batch.number
    if last.is_complete:
        # Spark repeats the last batch after a restart if it had not recorded the commit.
        return Step.SKIP if is_again else Step.COMMIT
    found = set(fates.values())
    if found <= {Fate.ABORTED}:
        return Step.COMMIT  # no reader has seen a row of the decided batch
    # All transactions can still commit. Without a new attempt of the same batch, the new batch follows afterwards.
    if found <= {Fate.OPEN, Fate.COMMITTED}:
        return Step.FINISH_AND_SKIP if is_again else Step.FINISH_AND_COMMIT
    counts = ", ".join(f"{sum(it is fate for it in fates.values())} {fate.value}" for fate in Fate if fate in found)
    raise ClientError(
        f"batch {last.batch.number} was decided, but the transactions of its tasks are {counts}, so its rows may be "
        "partly written. The broker aborts a transaction after kafka.transaction.timeout.ms. Check the topic, then "
        "continue with another transactional.id"
    )


def check_open(
    producers: Iterable[ProducerIdentity], found: Mapping[ProducerIdentity, TransactionDescription | None], now_ms: int
) -> None:
    """Raise ClientError unless the transactions of all tasks are open and have TIME_LEFT_MS_MIN left."""
    for producer in producers:
        description = found[producer]
        if fate_of(producer, description) is not Fate.OPEN or description is None:
            reason = "was ended by the broker or another task before the batch was committed"
        elif (description.started_ms or now_ms) + description.timeout_ms - now_ms < TIME_LEFT_MS_MIN:
            reason = "is about to be aborted by the broker"
        else:
            continue
        raise ClientError(
            f"transaction {producer.transactional_id} {reason}. Restart the query to write the batch again. If a batch "
            "takes longer than kafka.transaction.timeout.ms, raise this timeout or make batches smaller"
        )
