"""Pending decisions of a state machine: decided, but not durable yet."""

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

__all__ = ["Decisions"]

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class Decisions(Generic[_Key, _Value]):
    """The latest pending decision of each key. New decisions build on it; nothing else may see it.

    Decisions of a key become durable in the order in which they were made. `add` and `settle` are paired: two pending
    decisions with equal values are settled one by one.
    """

    def __init__(self) -> None:
        self._values: dict[_Key, _Value] = {}
        self._unsettled: dict[_Key, int] = {}

    def add(self, key: _Key, value: _Value) -> None:
        self._values[key] = value
        self._unsettled[key] = self._unsettled.get(key, 0) + 1

    def __contains__(self, key: _Key) -> bool:
        return key in self._values

    def settle(self, key: _Key) -> None:
        """Remove the oldest pending decision of a key, which became durable or failed."""
        # A startup replays records of which nothing is pending.
        if key in self._unsettled:
            self._unsettled[key] -= 1
            if not self._unsettled[key]:
                del self._unsettled[key], self._values[key]

    def latest(self, key: _Key, durable: _Value) -> _Value:
        return self._values.get(key, durable)

    def all_latest(self, durable: Mapping[_Key, _Value]) -> dict[_Key, _Value]:
        return {**durable, **self._values}
