"""The effects of fault rules on requests, file operations and store requests.

Each constructor raises FaultError if an argument is unknown or out of range.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from pipeline_broker.base.duration import Duration
from pipeline_broker.faults.names import FaultError, choice, error_code, system_error
from pipeline_broker.faults.values import seconds, text, whole_number

__all__ = [
    "AFTER",
    "BEFORE",
    "COMMIT",
    "QUEUE",
    "RESPONSE_ORDER",
    "STAGES",
    "Call",
    "CorruptCrc",
    "Crash",
    "Delay",
    "Disconnect",
    "DiskError",
    "Drop",
    "Effect",
    "Error",
    "Outage",
    "PartialWrite",
    "Pause",
    "StoreError",
    "Throttle",
    "Unsure",
    "When",
]

When: TypeAlias = Literal["before", "after"]
BEFORE: When = "before"
AFTER: When = "after"
QUEUE = "queue"
COMMIT = "commit"
RESPONSE_ORDER = "response_order"
STAGES = (QUEUE, COMMIT, RESPONSE_ORDER)
"""The stages that can hold a request: before its handler, before the commit of its records, before its response."""
STORE_ERRORS = ("conflict", "unavailable")
# The watchdog closes a connection with a request that is open for longer.
SECONDS_MAX = 3600.0
THROTTLE_MS_MAX = 2**31 - 1


def _error_name(name: str | int) -> str:
    return error_code(name).name


def _store_error(name: str) -> str:
    return choice("store error", name, STORE_ERRORS)


def _stage(name: str) -> str:
    return choice("stage", text("stage", name).replace(" ", "_"), STAGES)


def _when(name: str) -> When:
    return BEFORE if choice("moment", name, (BEFORE, AFTER)) == BEFORE else AFTER


def _throttle_ms(value: Duration) -> int:
    return round(seconds("throttle", value, None if isinstance(value, str) else "ms") * 1000)


def _delay_seconds(value: Duration) -> float:
    return seconds("delay", value)


def _outage_seconds(value: Duration) -> float:
    return seconds("outage", value)


def _size_bytes(value: object) -> int:
    return whole_number("partial_write", value)


def _positive(value: float, bound: float, what: str) -> None:
    if not 0 < value <= bound:
        raise FaultError(f"{what} must be above 0 and at most {bound:g}, not {value:g}")


@attrs.frozen
class Error:
    """Answer with an error of Kafka for everything that the request names.

    Args:
        code: Kafka's name or number of the error, such as "NOT_LEADER_OR_FOLLOWER" or 6.
        when: "before" answers instead of handling the request. "after" handles it first and waits until it is durable.
    """

    key: ClassVar[str] = "error"
    code: str = attrs.field(converter=_error_name)
    when: When = attrs.field(default=BEFORE, converter=_when)

    def __str__(self) -> str:
        return f"error {self.code}" + (" after handling" if self.when == AFTER else "")


@attrs.frozen
class Delay:
    """Delay the response, or the start of a file operation or store request.

    Args:
        seconds: above 0, at most an hour: a number, a text with a unit such as "250ms", or a timedelta.
    """

    key: ClassVar[str] = "delay"
    seconds: float = attrs.field(converter=_delay_seconds)

    def __attrs_post_init__(self) -> None:
        _positive(self.seconds, SECONDS_MAX, "a delay in seconds")

    def __str__(self) -> str:
        return f"delay {self.seconds * 1000:g}ms"


@attrs.frozen
class Drop:
    """Handle the request and never answer it. Releasing or removing the rule closes the request's connection."""

    key: ClassVar[str] = "drop"

    def __str__(self) -> str:
        return "drop the answer"


@attrs.frozen
class Disconnect:
    """Close the connection "before" the request is handled, or "after" its records are durable."""

    key: ClassVar[str] = "disconnect"
    when: When = attrs.field(default=AFTER, converter=_when)

    def __str__(self) -> str:
        return f"disconnect {self.when} handling"


@attrs.frozen
class PartialWrite:
    """Send the first bytes of the response, including its length prefix, then close the connection.

    Args:
        size_bytes: number of bytes to send, at least 1.
    """

    key: ClassVar[str] = "partial_write"
    size_bytes: int = attrs.field(converter=_size_bytes)

    def __attrs_post_init__(self) -> None:
        _positive(self.size_bytes, 2**31, "the bytes of a partial write")

    def __str__(self) -> str:
        return f"write {self.size_bytes} bytes and disconnect"


@attrs.frozen
class CorruptCrc:
    """Answer a fetch with record batches that have wrong checksums. A fetch without records does not count as a hit."""

    key: ClassVar[str] = "corrupt_crc"

    def __str__(self) -> str:
        return "corrupt the checksum of batches"


@attrs.frozen
class Throttle:
    """Report a throttle time to the client, and do not read its connection for that time (KIP-219).

    Args:
        throttle_ms: above 0, at most 2**31 - 1: a number, a text with a unit such as "2s", or a timedelta.
    """

    key: ClassVar[str] = "throttle"
    throttle_ms: int = attrs.field(converter=_throttle_ms)

    def __attrs_post_init__(self) -> None:
        _positive(self.throttle_ms, THROTTLE_MS_MAX, "a throttle in milliseconds")

    def __str__(self) -> str:
        return f"throttle {self.throttle_ms}ms"


@attrs.frozen
class Pause:
    """Hold the request at one of STAGES until the rule is released.

    A file operation or store request is held at its start.
    """

    key: ClassVar[str] = "pause"
    stage: str = attrs.field(converter=_stage)

    def __str__(self) -> str:
        return f"pause at {self.stage.replace('_', ' ')}"


@attrs.frozen
class Call:
    key: ClassVar[str] = "call"
    function: Callable[[Any], Any]

    def __attrs_post_init__(self) -> None:
        if not callable(self.function):
            raise FaultError(f"call needs a function, not {self.function!r}")

    def __str__(self) -> str:
        return f"call {getattr(self.function, '__name__', self.function)!s}"


@attrs.frozen
class DiskError:
    """Fail a file operation with a system error, such as "EIO"."""

    key: ClassVar[str] = "error"
    name: str = attrs.field(converter=system_error)

    @property
    def number(self) -> int:
        number: int = getattr(errno, self.name)
        return number

    def __str__(self) -> str:
        return f"error {self.name}"


@attrs.frozen
class Crash:
    """Undo all writes that were not synced, then end the process, like a power failure."""

    key: ClassVar[str] = "crash"

    def __str__(self) -> str:
        return "crash"


@attrs.frozen
class StoreError:
    """Fail a store request with "unavailable", or a conditional write with "conflict"."""

    key: ClassVar[str] = "error"
    name: str = attrs.field(converter=_store_error)

    def __str__(self) -> str:
        return f"error {self.name}"


@attrs.frozen
class Unsure:
    """Lose the answer of the store, "before" or "after" it carries out the request."""

    key: ClassVar[str] = "unsure"
    when: When = attrs.field(default=AFTER, converter=_when)

    def __str__(self) -> str:
        return f"no answer, {'nothing' if self.when == BEFORE else 'all of it'} done"


@attrs.frozen
class Outage:
    """Fail the struck request, and all requests to the store for some seconds after it.

    Args:
        seconds: above 0, at most 3600.
    """

    key: ClassVar[str] = "outage"
    seconds: float = attrs.field(converter=_outage_seconds)

    def __attrs_post_init__(self) -> None:
        _positive(self.seconds, SECONDS_MAX, "an outage in seconds")

    def __str__(self) -> str:
        return f"outage {self.seconds:g}s"


Effect: TypeAlias = (
    Error
    | Delay
    | Drop
    | Disconnect
    | PartialWrite
    | CorruptCrc
    | Throttle
    | Pause
    | Call
    | DiskError
    | Crash
    | StoreError
    | Unsure
    | Outage
)
