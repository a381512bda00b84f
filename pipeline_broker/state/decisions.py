"""What was decided last, while it is not durable: the next decision builds on it, and nothing else may know.

Rules of this file: decisions about a key become durable in the order in which they were made, and each of them counts:
that one says the same as a later one does not settle the later one.
"""

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

__all__ = ["Decisions"]

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class Decisions(Generic[_Key, _Value]):
    """The last decision about each key that has one on its way."""

    def __init__(self) -> None:
        self._values: dict[_Key, _Value] = {}
        self._unsettled: dict[_Key, int] = {}

    def add(self, key: _Key, value: _Value) -> None:
        """A change was decided, and goes to the journal."""
        self._values[key] = value
        self._unsettled[key] = self._unsettled.get(key, 0) + 1

    def __contains__(self, key: _Key) -> bool:
        return key in self._values

    def settle(self, key: _Key) -> None:
        """The oldest decision about a key is durable, or never will be; at a start there is none."""
        if key in self._unsettled:
            self._unsettled[key] -= 1
            if not self._unsettled[key]:
                del self._unsettled[key], self._values[key]

    def latest(self, key: _Key, durable: _Value) -> _Value:
        """The value as it will be when all that is on its way is durable, given what is."""
        return self._values.get(key, durable)

    def all_latest(self, durable: Mapping[_Key, _Value]) -> dict[_Key, _Value]:
        """The same of all keys."""
        return {**durable, **self._values}
