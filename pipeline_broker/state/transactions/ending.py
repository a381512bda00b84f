"""Validation of EndTxn by state, epoch and requested result.

The tables are Apache Kafka's, one for each protocol version of transactions. With version 2 every transaction has its
own epoch (KIP-890). So a late or repeated request can be distinguished from one for the next transaction: it carries
the previous epoch.

                        previous epoch           current epoch
    version 2           abort       commit       abort       commit
    Empty               fenced      fenced       ends        invalid
    CompleteAbort       is done     invalid      ends        invalid
    CompleteCommit      invalid     is done      ends        invalid
    Ongoing             fenced      fenced       ends        ends
    PrepareAbort        retry       invalid      retry       invalid
    PrepareCommit       invalid     retry        invalid     retry

    version 0           current epoch only
                        abort       commit
    Empty               invalid     invalid
    CompleteAbort       is done     invalid
    CompleteCommit      invalid     is done
    Ongoing             ends        ends
    PrepareAbort        retry       invalid
    PrepareCommit       invalid     retry

"ends" without an open transaction aborts nothing, but increments the epoch. "is done" repeats the answer. "retry" is
CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.transactions.states import PREPARED, TransactionState
from pipeline_broker.state.transactions.transaction import EPOCH_MAX, VERSION_2, Transaction

__all__ = ["Check", "Verdict", "check_of_version"]


class Verdict(Enum):
    ENDS = "ends"
    ALREADY_ENDED = "already ended"


_S = TransactionState
_INVALID, _FENCED = ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED
_ENDS, _ENDED, _RETRY = Verdict.ENDS, Verdict.ALREADY_ENDED, ErrorCode.CONCURRENT_TRANSACTIONS

_Row = tuple[Verdict | ErrorCode, Verdict | ErrorCode]  # abort, commit
_OF_PREPARED: Mapping[TransactionState, _Row] = {
    _S.PREPARE_ABORT: (_RETRY, _INVALID),
    _S.PREPARE_COMMIT: (_INVALID, _RETRY),
}
CURRENT_EPOCH_OF_VERSION_2: Mapping[TransactionState, _Row] = {
    **_OF_PREPARED,
    _S.EMPTY: (_ENDS, _INVALID),
    _S.ONGOING: (_ENDS, _ENDS),
    _S.COMPLETE_ABORT: (_ENDS, _INVALID),
    _S.COMPLETE_COMMIT: (_ENDS, _INVALID),
}
PREVIOUS_EPOCH_OF_VERSION_2: Mapping[TransactionState, _Row] = {
    **_OF_PREPARED,
    _S.EMPTY: (_FENCED, _FENCED),
    _S.ONGOING: (_FENCED, _FENCED),
    _S.COMPLETE_ABORT: (_ENDED, _INVALID),
    _S.COMPLETE_COMMIT: (_INVALID, _ENDED),
}
OF_VERSION_0: Mapping[TransactionState, _Row] = {
    **_OF_PREPARED,
    _S.EMPTY: (_INVALID, _INVALID),
    _S.ONGOING: (_ENDS, _ENDS),
    _S.COMPLETE_ABORT: (_ENDED, _INVALID),
    _S.COMPLETE_COMMIT: (_INVALID, _ENDED),
}


class Check(Protocol):
    def __call__(self, known: Transaction, producer_id: int, epoch: int, *, committed: bool) -> Verdict | ErrorCode: ...


def check_of_version(version: int) -> Check:
    return _check_version_2 if version >= VERSION_2 else _check_version_0


def _check_version_0(known: Transaction, producer_id: int, epoch: int, *, committed: bool) -> Verdict | ErrorCode:
    if producer_id != known.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if epoch != known.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return OF_VERSION_0[known.state][committed]


def _check_version_2(known: Transaction, producer_id: int, epoch: int, *, committed: bool) -> Verdict | ErrorCode:
    # A repeated request whose first attempt used up the epochs and so changed the producer id.
    changed = (
        known.previous_producer_id == producer_id
        and epoch == EPOCH_MAX - 1
        and known.producer_epoch == 0
        and known.state in {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
    )
    if known.state in PREPARED and producer_id == known.next_producer_id:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if producer_id != known.producer_id and not changed:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if changed or epoch + 1 == known.producer_epoch:
        return PREVIOUS_EPOCH_OF_VERSION_2[known.state][committed]
    if epoch != known.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return CURRENT_EPOCH_OF_VERSION_2[known.state][committed]
