"""States of a transactional id and their transitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

__all__ = ["ENDED", "NEXT_STATES", "PREPARED", "TransactionState"]


class TransactionState(IntEnum):
    """States with Kafka's numbers, which are stored in the records of `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Kafka's name of the state, as in responses to administrators."""
        return "".join(word.capitalize() for word in self.name.split("_"))


_S = TransactionState
_AT_REST = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
ENDED = _AT_REST
"""States without an open transaction: the id may begin one, get a new producer, or expire."""
PREPARED: Mapping[TransactionState, TransactionState] = {
    _S.PREPARE_COMMIT: _S.COMPLETE_COMMIT,
    _S.PREPARE_ABORT: _S.COMPLETE_ABORT,
}
"""Decided states, each with the state that follows once all markers are written."""
_FROM_REST = frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD})
NEXT_STATES: Mapping[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: _FROM_REST,
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT, _S.PREPARE_EPOCH_FENCE}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: _FROM_REST,
    _S.COMPLETE_ABORT: _FROM_REST,
    _S.DEAD: frozenset(),
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.PREPARE_ABORT}),
}
"""State -> possible next states. With transactions of version 2, states at rest may abort, too (KIP-890)."""
