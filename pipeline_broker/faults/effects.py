"""What a rule does to a request, or to an operation on a file, once it strikes.

Rules of this room: see `names.py`. An effect is a value: it says what is to happen and does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from pipeline_broker.faults.names import FaultError, choice, error_code, system_error

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
"""Where a request may be held: before it starts, before what it appended is written, before its answer is released."""
STORE_ERRORS = ("conflict", "unavailable")
SECONDS_MAX = 3600.0
"""The longest delay: the watchdog closes a connection whose oldest request is open for longer."""
THROTTLE_MS_MAX = 2**31 - 1


def _error_name(name: str) -> str:
    return error_code(name).name


def _store_error(name: str) -> str:
    return choice("error of a store", name, STORE_ERRORS)


def _stage(name: str) -> str:
    return choice("stage", name.replace(" ", "_"), STAGES)


def _upper(name: str) -> str:
    return name.upper()


def _when(name: str) -> When:
    return BEFORE if choice("moment", name, (BEFORE, AFTER)) == BEFORE else AFTER


def _positive(value: float, bound: float, what: str) -> None:
    if not 0 < value <= bound:
        raise FaultError(f"{what} must be above 0 and at most {bound:g}, not {value:g}")


@attrs.frozen
class Error:
    """Answer with an error of Kafka's, in the API's own response, for all that the request asks.

    Args:
        code: Kafka's name of it.
        when: "before": instead of handling the request; "after": once it was handled and what it appended is durable.
    """

    key: ClassVar[str] = "error"
    code: str = attrs.field(converter=_error_name)
    when: When = attrs.field(default=BEFORE, converter=_when)

    def __str__(self) -> str:
        return f"error {self.code}" + (" after handling" if self.when == AFTER else "")


@attrs.frozen
class Delay:
    """Hold the answer back for so long; of an operation on a file: begin so much later."""

    key: ClassVar[str] = "delay"
    seconds: float = attrs.field(converter=float)

    def __attrs_post_init__(self) -> None:
        _positive(self.seconds, SECONDS_MAX, "a delay in seconds")

    def __str__(self) -> str:
        return f"delay {self.seconds * 1000:g}ms"


@attrs.frozen
class Drop:
    """Handle the request and never answer it; its connection is closed when the rule goes."""

    key: ClassVar[str] = "drop"

    def __str__(self) -> str:
        return "drop the answer"


@attrs.frozen
class Disconnect:
    """Close the connection: "before" the request is handled, or "after", once what it appended is durable."""

    key: ClassVar[str] = "disconnect"
    when: When = attrs.field(default=AFTER, converter=_when)

    def __str__(self) -> str:
        return f"disconnect {self.when} handling"


@attrs.frozen
class PartialWrite:
    """Send so many bytes of the answer, its length in front included, then close the connection."""

    key: ClassVar[str] = "partial_write"
    size_bytes: int

    def __attrs_post_init__(self) -> None:
        _positive(self.size_bytes, 2**31, "the bytes of a partial write")

    def __str__(self) -> str:
        return f"write {self.size_bytes} bytes and disconnect"


@attrs.frozen
class CorruptCrc:
    """Answer a fetch with record batches whose checksum is wrong; a fetch that finds no records is not counted."""

    key: ClassVar[str] = "corrupt_crc"

    def __str__(self) -> str:
        return "corrupt the checksum of batches"


@attrs.frozen
class Throttle:
    """Tell the client that it is throttled, and do not read from its connection for so long (KIP-219)."""

    key: ClassVar[str] = "throttle"
    throttle_ms: int

    def __attrs_post_init__(self) -> None:
        _positive(self.throttle_ms, THROTTLE_MS_MAX, "a throttle in milliseconds")

    def __str__(self) -> str:
        return f"throttle {self.throttle_ms}ms"


@attrs.frozen
class Pause:
    """Hold the request at a stage (see STAGES) until the rule is released; an operation on a file, before it begins."""

    key: ClassVar[str] = "pause"
    stage: str = attrs.field(converter=_stage)

    def __str__(self) -> str:
        return f"pause at {self.stage.replace('_', ' ')}"


@attrs.frozen
class Call:
    """Ask a function; see `When.call`."""

    key: ClassVar[str] = "call"
    function: Callable[[Any], Any]

    def __str__(self) -> str:
        return f"call {getattr(self.function, '__name__', self.function)!s}"


@attrs.frozen
class DiskError:
    """Fail an operation on a file with an error of the system."""

    key: ClassVar[str] = "error"
    name: str = attrs.field(converter=_upper)
    number: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "number", system_error(self.name))

    def __str__(self) -> str:
        return f"error {self.name}"


@attrs.frozen
class Crash:
    """End the process at once, as a power cut would: what was written and not synced is taken back first."""

    key: ClassVar[str] = "crash"

    def __str__(self) -> str:
        return "crash"


@attrs.frozen
class StoreError:
    """Have a request to the store fail: `unavailable`, or `conflict`, a condition that is said not to hold."""

    key: ClassVar[str] = "error"
    name: str = attrs.field(converter=_store_error)

    def __str__(self) -> str:
        return f"error {self.name}"


@attrs.frozen
class Unsure:
    """Lose the answer of the store, before or after it has done what it was asked for."""

    key: ClassVar[str] = "unsure"
    when: When = attrs.field(default=AFTER, converter=_when)

    def __str__(self) -> str:
        return f"no answer, {'nothing' if self.when == BEFORE else 'all of it'} done"


@attrs.frozen
class Outage:
    """Have the store answer nobody for so long, whatever is asked for."""

    key: ClassVar[str] = "outage"
    seconds: float = attrs.field(converter=float)

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
