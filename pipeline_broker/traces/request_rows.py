"""From a request to its row: what an observer keeps of each request that ended.

Rules of this file: on the event loop a request costs one packed row of REQUESTS and nothing else. So the functions are
made from the table, as text: they read one attribute after the other, without a loop and without a call in between,
which would cost half as much again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline_broker.traces.broker_tables import REQUEST_COLUMNS, Outcome
from pipeline_broker.traces.row_ring import NO_ROOM, RowRing
from stages.request import Close, NoOp, Send
from stages.timeline import NO_STAMP, STAMPS, Timeline

__all__ = ["RequestRows", "dropped_values", "ended_values"]

_SOURCES = {"connection": "connection.index", "request_bytes": "size_bytes"}
"""What a column is called in a request, where it has another name there."""
_OUTCOMES = {Send: int(Outcome.SEND), NoOp: int(Outcome.NOOP), Close: int(Outcome.CLOSE)}


def _values(outcome: str, *, is_whole: bool) -> str:
    """The values of a row as the arguments of a call; of a request that is not whole stamps may be missing."""

    def value(column: str) -> str:
        if column == "outcome":
            return outcome
        return f"request.{_SOURCES.get(column, column)}{' or null' if column in STAMPS and not is_whole else ''}"

    return ", ".join(map(value, REQUEST_COLUMNS))


_ENDED = _values("outcomes[type(request.result)]", is_whole=True)
_DROPPED = _values(str(int(Outcome.DROPPED)), is_whole=False)


def _made(name: str, source: str, **names: Any) -> Callable[..., Any]:
    namespace: dict[str, Any] = {"outcomes": _OUTCOMES, "null": NO_STAMP, **names}
    exec(f"def {name}(request):\n{source}", namespace)  # noqa: S102 - made of names in this file and in the table
    made: Callable[..., Any] = namespace[name]
    return made


ended_values: Callable[[Any], tuple[int, ...]] = _made("ended_values", f" return ({_ENDED})")
"""The row of a request that ended: it has every stamp, but those of a commit where it needed none."""
dropped_values: Callable[[Any], tuple[int, ...]] = _made("dropped_values", f" return ({_DROPPED})")
"""The row of a request whose connection closed: a stage that it did not reach has no stamp."""


def _packer(ring: RowRing) -> Callable[[Any], None]:
    """What packs `ended_values` into a ring, if there is room."""
    return _made(
        "pack_ended",
        f" position = claim()\n if position != {NO_ROOM}:\n  pack_into(buffer, position, {_ENDED})\n  publish()",
        claim=ring.claim,
        pack_into=ring.pack_into,
        buffer=ring.buffer,
        publish=ring.publish,
    )


class RequestRows(Timeline):
    """That part of a `stages.timeline.Timeline` that is about requests.

    Args:
        ring: of rows of REQUESTS.

    Attributes:
        pack_ended: keeps a request that ended.
    """

    def __init__(self, ring: RowRing) -> None:
        self.ring = ring
        self.pack_ended = _packer(ring)

    def request_ended(self, request: Any) -> None:
        self.pack_ended(request)

    def request_dropped(self, request: Any) -> None:
        self.ring.append(*dropped_values(request))
