"""EndTxn by state, epoch and requested result: every cell was observed on Apache Kafka.

The cells of prepared transactions are from its TransactionCoordinator.endTransaction, since no client can keep a
transaction in these states.
"""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.transactions.ending import Verdict, check_of_version
from pipeline_broker.state.transactions.states import TransactionState
from pipeline_broker.state.transactions.transaction import EPOCH_MAX, Transaction

ENDS, ALREADY_ENDED = Verdict.ENDS, Verdict.ALREADY_ENDED
FENCED, INVALID, RETRY, MAPPING = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
S = TransactionState
VERSION_2 = [  # state, abort with previous and current epoch, commit with previous and current epoch
    (S.EMPTY, FENCED, ENDS, FENCED, INVALID),
    (S.COMPLETE_ABORT, ALREADY_ENDED, ENDS, INVALID, INVALID),
    (S.COMPLETE_COMMIT, INVALID, ENDS, ALREADY_ENDED, INVALID),
    (S.ONGOING, FENCED, ENDS, FENCED, ENDS),
    (S.PREPARE_ABORT, RETRY, RETRY, INVALID, INVALID),
    (S.PREPARE_COMMIT, INVALID, INVALID, RETRY, RETRY),
]
VERSION_0 = [  # state, abort, commit
    (S.EMPTY, INVALID, INVALID),
    (S.COMPLETE_ABORT, ALREADY_ENDED, INVALID),
    (S.COMPLETE_COMMIT, INVALID, ALREADY_ENDED),
    (S.ONGOING, ENDS, ENDS),
    (S.PREPARE_ABORT, RETRY, INVALID),
    (S.PREPARE_COMMIT, INVALID, RETRY),
]


def known(state, epoch=5, **more):
    return Transaction(transactional_id="x", producer_id=7, producer_epoch=epoch, timeout_ms=1, state=state, **more)


@pytest.mark.parametrize(("state", "abort_again", "abort_now", "commit_again", "commit_now"), VERSION_2)
def test_with_version_2(state, abort_again, abort_now, commit_again, commit_now):
    check = check_of_version(2)
    assert check(known(state), 7, 4, committed=False) is abort_again
    assert check(known(state), 7, 5, committed=False) is abort_now
    assert check(known(state), 7, 4, committed=True) is commit_again
    assert check(known(state), 7, 5, committed=True) is commit_now
    for committed in (False, True):
        assert check(known(state), 7, 3, committed=committed) is FENCED
        assert check(known(state), 7, 6, committed=committed) is FENCED
        assert check(known(state), 8, 5, committed=committed) is MAPPING


@pytest.mark.parametrize(("state", "abort", "commit"), VERSION_0)
def test_with_version_0(state, abort, commit):
    check = check_of_version(0)
    assert check(known(state), 7, 5, committed=False) is abort
    assert check(known(state), 7, 5, committed=True) is commit
    for committed in (False, True):
        assert check(known(state), 7, 4, committed=committed) is FENCED
        assert check(known(state), 8, 5, committed=committed) is MAPPING


@pytest.mark.parametrize("state", [S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_the_previous_producer_may_repeat_an_end_that_used_up_the_epochs(state):
    ended = known(state, epoch=0, previous_producer_id=6)
    check = check_of_version(2)
    assert check(ended, 6, EPOCH_MAX - 1, committed=state is S.COMPLETE_COMMIT) is ALREADY_ENDED
    assert check(ended, 6, EPOCH_MAX - 1, committed=state is S.COMPLETE_ABORT) is INVALID
    assert check(ended, 6, EPOCH_MAX - 2, committed=True) is MAPPING
    assert check(known(S.ONGOING, epoch=0, previous_producer_id=6), 6, EPOCH_MAX - 1, committed=True) is MAPPING


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
@pytest.mark.parametrize("committed", [True, False])
def test_the_next_producer_retries_until_an_end_is_complete(state, committed):
    prepared = known(state, epoch=EPOCH_MAX, next_producer_id=8)
    assert check_of_version(2)(prepared, 8, 0, committed=committed) is RETRY
    assert check_of_version(2)(prepared, 9, 0, committed=committed) is MAPPING


@pytest.mark.parametrize(("version", "next_producer_id", "producer"), [(2, 8, (8, 0)), (2, -1, (7, 5)), (0, 8, (7, 5))])
def test_only_version_2_changes_the_producer_id_at_an_end(version, next_producer_id, producer):
    completed = known(S.PREPARE_COMMIT, next_producer_id=next_producer_id, version=version).completed(9)
    assert (completed.producer_id, completed.producer_epoch) == producer
    assert (completed.state, completed.next_producer_id, completed.updated_ms) == (S.COMPLETE_COMMIT, -1, 9)


@pytest.mark.parametrize(
    ("change", "producer_id", "epoch", "verdict"),
    [
        ({}, 6, EPOCH_MAX - 1, ALREADY_ENDED),
        ({}, 8, EPOCH_MAX - 1, MAPPING),
        ({}, 6, EPOCH_MAX - 2, MAPPING),
        ({"epoch": 1}, 6, EPOCH_MAX - 1, MAPPING),
        ({"state": S.ONGOING}, 6, EPOCH_MAX - 1, MAPPING),
        ({"state": S.EMPTY}, 6, EPOCH_MAX - 1, MAPPING),
        ({"previous_producer_id": -1}, 6, EPOCH_MAX - 1, MAPPING),
        ({"previous_producer_id": 5}, 7, EPOCH_MAX - 1, FENCED),
    ],
)
def test_with_version_2_a_repeated_end_may_name_the_previous_producer_id(change, producer_id, epoch, verdict):
    """Only with its last epoch, and until a transaction begins with the new id."""
    found = known(**{"state": S.COMPLETE_COMMIT, "epoch": 0, "previous_producer_id": 6} | change)
    assert check_of_version(2)(found, producer_id, epoch, committed=True) is verdict
