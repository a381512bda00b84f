"""Options of a duration, such as 10ms, 300us or 1s."""

from __future__ import annotations

from typing import Any

import click

from pipeline_broker.base.duration import MS_PER_UNIT, milliseconds

__all__ = ["Duration"]


class Duration(click.ParamType[Any]):
    """An option of a duration, in seconds as a float.

    Args:
        bare: the unit of a number without one: seconds for waits of a person, milliseconds for times of a broker.
    """

    name = "time"

    def __init__(self, bare: str = "ms") -> None:
        assert bare in MS_PER_UNIT
        self._bare = bare

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = milliseconds(str(value).strip(), self._bare)
        if found is None:
            self.fail(f"{value!r} is not a time such as 10ms, 300us or 1s", param, ctx)
        return found / 1000
