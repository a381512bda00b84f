"""Packing of each finished request into a row of REQUESTS.

This runs on the event loop, where a request must cost one packed row and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline_broker.traces.broker_tables import REQUEST_COLUMNS, Outcome
from pipeline_broker.traces.row_ring import RING_FULL, RowRing
from stages.request import Close, NoOp, Send
from stages.timeline import NO_STAMP, STAMPS, Timeline

__all__ = ["RequestRows", "dropped_values", "ended_values"]

# Columns whose attribute of a request has another name.
_SOURCES = {"connection": "connection.index", "request_bytes": "size_bytes"}
_OUTCOMES = {Send: int(Outcome.SEND), NoOp: int(Outcome.NOOP), Close: int(Outcome.CLOSE)}


def _values(outcome: str, *, is_whole: bool) -> str:
    """Return the source text of a row's values. Without `is_whole`, a missing stamp becomes null."""

    def value(column: str) -> str:
        if column == "outcome":
            return outcome
        return f"request.{_SOURCES.get(column, column)}{' or null' if column in STAMPS and not is_whole else ''}"

    return ", ".join(map(value, REQUEST_COLUMNS))


_ENDED = _values("outcomes[type(request.result)]", is_whole=True)
_DROPPED = _values(str(int(Outcome.DROPPED)), is_whole=False)


def _made(name: str, source: str, **names: Any) -> Callable[..., Any]:
    # Generated code reads one attribute after the other. A loop with a call per column takes half as long again, and
    # the event loop pays that for every request.
    namespace: dict[str, Any] = {"outcomes": _OUTCOMES, "null": NO_STAMP, **names}
    exec(f"def {name}(request):\n{source}", namespace)  # noqa: S102 - the source consists of names from this module and the table
    made: Callable[..., Any] = namespace[name]
    return made


ended_values: Callable[[Any], tuple[int, ...]] = _made("ended_values", f" return ({_ENDED})")
"""Return the row of a request that ended. It has all stamps, except those of a commit that it did not need."""
dropped_values: Callable[[Any], tuple[int, ...]] = _made("dropped_values", f" return ({_DROPPED})")
"""Return the row of a request whose connection closed. Stages that it did not reach have no stamp."""


def _packer(ring: RowRing) -> Callable[[Any], None]:
    return _made(
        "pack_ended",
        f" position = claim()\n if position != {RING_FULL}:\n  pack_into(buffer, position, {_ENDED})\n  publish()",
        claim=ring.claim,
        pack_into=ring.pack_into,
        buffer=ring.buffer,
        publish=ring.publish,
    )


class RequestRows(Timeline):
    """A timeline that records requests, answered and dropped ones, in a ring.

    Args:
        ring: rows of REQUESTS.

    Attributes:
        pack_ended: appends a request that ended, or drops and counts it if the ring is full.
    """

    def __init__(self, ring: RowRing) -> None:
        self.ring = ring
        self.pack_ended = _packer(ring)

    def request_ended(self, request: Any) -> None:
        self.pack_ended(request)

    def request_dropped(self, request: Any) -> None:
        self.ring.append(*dropped_values(request))
