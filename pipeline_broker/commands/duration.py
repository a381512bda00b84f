"""Times as options: 10ms, 300us, 1s; each option says what a bare number counts."""

from __future__ import annotations

from typing import Any

import click

from pipeline_broker.config.duration import MS_PER_UNIT, milliseconds

__all__ = ["Duration"]


class Duration(click.ParamType[Any]):
    """A time; seconds in Python.

    Args:
        bare: the unit of a bare number: seconds where people think in them, milliseconds for what a broker does.
    """

    name = "time"

    def __init__(self, bare: str = "ms") -> None:
        assert bare in MS_PER_UNIT
        self._bare = bare

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        if isinstance(value, float):
            return value
        found = milliseconds(str(value).strip(), self._bare)
        if found is None:
            self.fail(f"{value!r} is not a time such as 10ms, 300us or 1s", param, ctx)
        return found / 1000
