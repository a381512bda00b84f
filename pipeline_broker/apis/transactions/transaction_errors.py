"""How the errors of the transaction coordinator look to clients of different ages.

Rules of this file: tables of Apache Kafka's. A client must not be told a code that its version of the API did not have
yet, nor one that it would take for final although it may try again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from pipeline_broker.wire.error import ErrorCode

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

_RETRY_SOON = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Nothing that a Produce response could say; clients try again after NOT_ENOUGH_REPLICAS, without new metadata."""


class Joining(Enum):
    """What becomes of a partition that is written to and not part of the transaction yet."""

    REFUSED = "refused"
    REFUSED_ABORTABLE = "refused, and the client knows that it may abort and go on"
    ADDED = "added (transactions version 2)"


def joining_of_produce(version: int) -> Joining:
    """For a version of Produce."""
    return _joining(version, ABORTABLE_SINCE_PRODUCE, ADDING_SINCE_PRODUCE)


def joining_of_txn_offset_commit(version: int) -> Joining:
    """For a version of TxnOffsetCommit."""
    return _joining(version, ABORTABLE_SINCE_TXN_OFFSET_COMMIT, ADDING_SINCE_TXN_OFFSET_COMMIT)


def _joining(version: int, abortable_since: int, adding_since: int) -> Joining:
    if version >= adding_since:
        return Joining.ADDED
    return Joining.REFUSED_ABORTABLE if version >= abortable_since else Joining.REFUSED


def fenced_or_older(code: ErrorCode, version: int, fenced_since: int) -> ErrorCode:
    """PRODUCER_FENCED only from the version on that has it."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def writer_error(code: ErrorCode, joining: Joining) -> ErrorCode:
    """An error of the coordinator for somebody who writes to a partition."""
    found: Mapping[ErrorCode, ErrorCode] = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}
    if joining is Joining.REFUSED:
        found = {**found, ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE}
    return found.get(code, code)


def produce_error(code: ErrorCode, joining: Joining) -> ErrorCode:
    """The same for Produce."""
    if code in _RETRY_SOON or (code is ErrorCode.CONCURRENT_TRANSACTIONS and joining is not Joining.ADDED):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return writer_error(code, joining)
