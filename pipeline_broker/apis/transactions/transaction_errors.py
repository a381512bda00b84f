"""Translation of transaction coordinator errors for the API versions of clients, as in Apache Kafka.

A client must not receive a code that its version does not know. It must not receive a code that it treats as fatal
although it could retry.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from pipeline_broker.base.error_code import ErrorCode

__all__ = [
    "Joining",
    "fenced_or_older",
    "joining_of_produce",
    "joining_of_txn_offset_commit",
    "produce_error",
    "writer_error",
]

ABORTABLE_SINCE_PRODUCE, ADDING_SINCE_PRODUCE = 11, 12
ABORTABLE_SINCE_TXN_OFFSET_COMMIT, ADDING_SINCE_TXN_OFFSET_COMMIT = 4, 5

# Produce responses cannot carry these errors. After NOT_ENOUGH_REPLICAS, clients retry without refreshing metadata.
_RETRY_SOON = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Joining(Enum):
    """The treatment of a write to a partition that is not part of the transaction yet."""

    REFUSED = "refused"
    REFUSED_ABORTABLE = "refused, and the client may abort the transaction and continue"
    ADDED = "added (transactions version 2)"


def joining_of_produce(version: int) -> Joining:
    return _joining(version, ABORTABLE_SINCE_PRODUCE, ADDING_SINCE_PRODUCE)


def joining_of_txn_offset_commit(version: int) -> Joining:
    return _joining(version, ABORTABLE_SINCE_TXN_OFFSET_COMMIT, ADDING_SINCE_TXN_OFFSET_COMMIT)


def _joining(version: int, abortable_since: int, adding_since: int) -> Joining:
    if version >= adding_since:
        return Joining.ADDED
    return Joining.REFUSED_ABORTABLE if version >= abortable_since else Joining.REFUSED


def fenced_or_older(code: ErrorCode, version: int, fenced_since: int) -> ErrorCode:
    """Replace PRODUCER_FENCED by INVALID_PRODUCER_EPOCH for versions before `fenced_since`."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def writer_error(code: ErrorCode, joining: Joining) -> ErrorCode:
    """Translate a coordinator error for a request that writes to a partition.

    PRODUCER_FENCED becomes INVALID_PRODUCER_EPOCH. TRANSACTION_ABORTABLE becomes INVALID_TXN_STATE for clients that do
    not know it. Other errors stay as they are.
    """
    found: Mapping[ErrorCode, ErrorCode] = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}
    if joining is Joining.REFUSED:
        found = {**found, ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE}
    return found.get(code, code)


def produce_error(code: ErrorCode, joining: Joining) -> ErrorCode:
    """Translate a coordinator error for Produce, like `writer_error`.

    Errors after which the client should retry soon become NOT_ENOUGH_REPLICAS.
    """
    if code in _RETRY_SOON or (code is ErrorCode.CONCURRENT_TRANSACTIONS and joining is not Joining.ADDED):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return writer_error(code, joining)
