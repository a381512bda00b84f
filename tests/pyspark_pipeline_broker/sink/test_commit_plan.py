"""The decisions about a decided batch, case by case; tests/differential/test_spark_sink.py tests the whole protocol."""

import pytest

from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.transaction_state import ProducerIdentity, TransactionDescription
from pyspark_pipeline_broker.sink.commit_plan import (
    TIME_LEFT_MS_MIN,
    BatchId,
    Fate,
    LedgerEntry,
    Step,
    check_open,
    fate_of,
    plan,
    task_prefix,
    task_transaction,
)

ONE, TWO = ProducerIdentity("s/spark/r/0/0", 7, 3), ProducerIdentity("s/spark/r/1/0", 8, 0)
BATCH = BatchId("q", "run", 5)
NOW_MS, TIMEOUT_MS = 1_000_000, 60_000
OPEN, COMMITTED, ABORTED, UNKNOWN = Fate


def entry(number=5, query="q", *, is_complete=False):
    return LedgerEntry(BatchId(query, "earlier", number), (ONE, TWO), is_complete)


def described(state, producer=ONE, *, epoch=None, started_ms=NOW_MS):
    epoch = producer.epoch if epoch is None else epoch
    return TransactionDescription(
        producer.transactional_id, 1, producer.producer_id, epoch, state, TIMEOUT_MS, started_ms, ()
    )


@pytest.mark.parametrize(
    ("last", "fates", "step"),
    [
        (None, (), Step.COMMIT),
        (entry(4, is_complete=True), (), Step.COMMIT),
        (entry(5, is_complete=True), (), Step.SKIP),
        (entry(9, "other", is_complete=True), (), Step.COMMIT),
        (entry(5), (OPEN, OPEN), Step.FINISH_AND_SKIP),
        (entry(5), (OPEN, COMMITTED), Step.FINISH_AND_SKIP),
        (entry(5), (COMMITTED, COMMITTED), Step.FINISH_AND_SKIP),
        (entry(4), (OPEN, COMMITTED), Step.FINISH_AND_COMMIT),
        (entry(9, "other"), (OPEN, COMMITTED), Step.FINISH_AND_COMMIT),
        (entry(5), (ABORTED, ABORTED), Step.COMMIT),
        (entry(9, "other"), (ABORTED, ABORTED), Step.COMMIT),
    ],
)
def test_the_step_after_a_decided_batch(last, fates, step):
    assert plan(last, BATCH, dict(zip((ONE, TWO), fates, strict=False))) is step


@pytest.mark.parametrize("fates", [(OPEN, ABORTED), (COMMITTED, ABORTED), (COMMITTED, UNKNOWN), (UNKNOWN, UNKNOWN)])
@pytest.mark.parametrize("last", [entry(5), entry(4), entry(9, "other")])
def test_a_partly_committed_batch_ends_the_query(last, fates):
    with pytest.raises(ClientError, match=r"its tasks are [0-9, a-z]+, so its rows may be partly written"):
        plan(last, BATCH, dict(zip((ONE, TWO), fates, strict=True)))


def test_a_checkpoint_that_is_older_than_the_sink_ends_the_query():
    with pytest.raises(ClientError, match="has reached batch 6 of this query, but the checkpoint is at batch 5"):
        plan(entry(6, is_complete=True), BATCH, {})


@pytest.mark.parametrize(
    ("description", "fate"),
    [
        (None, UNKNOWN),
        (described("Ongoing"), OPEN),
        (described("PrepareCommit"), COMMITTED),
        (described("CompleteCommit"), COMMITTED),
        (described("PrepareAbort"), ABORTED),
        (described("CompleteAbort"), ABORTED),
        (described("Empty"), ABORTED),
        (described("Ongoing", epoch=4), ABORTED),
        (described("CompleteCommit", epoch=4), ABORTED),
        (described("Ongoing", TWO), ABORTED),
    ],
)
def test_the_fate_of_a_transaction_comes_from_the_coordinator(description, fate):
    assert fate_of(ONE, description) is fate


def test_a_batch_is_decided_while_its_transactions_are_open_and_have_time_left():
    check_open([ONE], {ONE: described("Ongoing")}, NOW_MS)
    check_open([ONE], {ONE: described("Ongoing", started_ms=NOW_MS - TIMEOUT_MS + TIME_LEFT_MS_MIN)}, NOW_MS)
    for found, reason in (
        (described("Ongoing", started_ms=NOW_MS - TIMEOUT_MS + TIME_LEFT_MS_MIN - 1), "is about to be aborted"),
        (described("CompleteAbort"), "was ended"),
        (described("Ongoing", epoch=4), "was ended"),
        (None, "was ended"),
    ):
        with pytest.raises(ClientError, match=f"{ONE.transactional_id} {reason}"):
            check_open([TWO, ONE], {ONE: found, TWO: described("Ongoing", TWO)}, NOW_MS)


def test_an_entry_is_read_as_it_was_written_and_anything_else_is_refused():
    for wanted in (entry(), entry(is_complete=True), LedgerEntry(BATCH, (), is_complete=False)):
        assert LedgerEntry.decoded(wanted.encoded()) == wanted
    for data in (b"", b"{}", b"[]", b"\xff", entry().encoded().replace(b'"number"', b'"other"')):
        with pytest.raises(ClientError, match="has a record that this sink did not write"):
            LedgerEntry.decoded(data)


def test_attempts_of_a_task_have_transactions_of_their_own():
    names = {
        task_transaction("s", BatchId("q", run, number), task, attempt)
        for run in ("a", "b")
        for number in (1, 2)
        for task in (0, 1)
        for attempt in (0, 1)
    }
    assert len(names) == 8  # batches of a run use them in turn
    assert all(name.startswith(task_prefix("s")) for name in names)
