"""Types of options that several commands take."""

from __future__ import annotations

from typing import Any

import click

from pipeline_broker.base.duration import MS_PER_UNIT, milliseconds
from pipeline_broker.base.host_and_port import host_and_port

__all__ = ["ACKS", "Address", "Duration", "Setting", "address_of"]

ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
"""The names of `acks` on the command line, as clients write them."""


class Address(click.ParamType[Any]):
    """An option of HOST:PORT, with brackets around an IPv6 host."""

    name = "host:port"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        return address_of(str(value), param, ctx)


def address_of(
    text: str, param: click.Parameter | None, ctx: click.Context | None, port_default: int | None = None
) -> tuple[str, int]:
    """Parse HOST:PORT into host and port.

    Args:
        port_default: the port of a host alone; None: a port is required.

    Raises:
        click.BadParameter: the text is not an address.
    """
    address = host_and_port(text, port_default)
    if address is None:
        raise click.BadParameter(f"{text!r} is not an address such as localhost:9092", ctx, param)
    return address


class Setting(click.ParamType[Any]):
    """An option of NAME=VALUE.

    Args:
        example: shown in the message for a malformed value.
    """

    name = "name=value"

    def __init__(self, example: str = "security.protocol=ssl") -> None:
        self.example = example

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, separator, text = str(value).partition("=")
        if not name.strip() or not separator:
            self.fail(f"expected NAME=VALUE, such as {self.example}", param, ctx)
        return name.strip(), text


class Duration(click.ParamType[Any]):
    """An option of a duration such as 10ms, converted to seconds.

    Args:
        bare: the unit of a number without one: "s" for waits of a person, "ms" for times of a broker.
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
