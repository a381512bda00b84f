"""Arguments of EmbeddedBroker as callers write them: durations, times, names, counts and settings.

Each function returns a checked value, or raises EmbeddedBrokerError with one line that names the method.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import SupportsIndex, TypeAlias

from pipeline_broker.base.duration import MS_PER_UNIT, Duration, seconds_of
from pipeline_broker.base.numbers import INT32, INT64
from pipeline_broker.config.properties import property_text
from pipeline_broker.embedded.errors import EmbeddedBrokerError

__all__ = [
    "Duration",
    "SettingValue",
    "checked_name",
    "checked_number",
    "checked_offsets",
    "checked_seconds",
    "setting_texts",
    "timestamp_ms",
]

SettingValue: TypeAlias = str | int | float | bool | timedelta

SECONDS_MAX = 100 * 365 * 86_400
EPOCH = datetime.fromtimestamp(0, UTC)
UNITS = {"us": "us", "ms": "ms", "seconds": "s", "minutes": "min", "hours": "h"}
"""The unit of a setting, by the last part of its name."""


def checked_seconds(asked: str, value: object) -> float:
    found = seconds_of(value)
    if found is None or not 0 <= found <= SECONDS_MAX:
        raise EmbeddedBrokerError(
            f"{asked} needs a time of at least 0 and at most 100 years, as seconds, a timedelta, or a text such as '3s'"
            f" with the unit us, ms, s, m, h or d, not {value!r}"
        )
    return found


def timestamp_ms(asked: str, value: object) -> int:
    """Return a time in milliseconds since 1970. A datetime without a zone is local time, as elsewhere in Python."""
    if isinstance(value, datetime):
        with contextlib.suppress(ValueError, OverflowError):  # too close to the first or last year
            return (value.astimezone(UTC) - EPOCH) // timedelta(milliseconds=1)
    elif isinstance(value, int) and not isinstance(value, bool) and INT64[0] <= value <= INT64[1]:
        return value
    raise EmbeddedBrokerError(f"{asked} needs a datetime or milliseconds since 1970 as an int, not {value!r}")


def checked_name(asked: str, value: object) -> str:
    if not isinstance(value, str):
        raise EmbeddedBrokerError(f"{asked} needs a text, not {value!r}")
    return value


def checked_number(asked: str, value: object, least: int = INT32[0], most: int = INT32[1]) -> int:
    if not isinstance(value, SupportsIndex) or isinstance(value, bool) or not least <= int(value) <= most:
        bounds = " of 32 bits" if least == INT32[0] else f" from {least}" + ("" if most == INT32[1] else f" to {most}")
        raise EmbeddedBrokerError(f"{asked} needs a whole number{bounds}, not {value!r}")
    return int(value)


def checked_offsets(asked: str, offsets: object) -> None:
    places = offsets.items() if isinstance(offsets, Mapping) and offsets else [(offsets, None)]
    for place, offset in places:
        match place, offset:
            case ((str(), int(partition)), int()) if 0 <= partition <= INT32[1] and 0 <= offset <= INT64[1]:
                continue
        raise EmbeddedBrokerError(
            f"{asked} need offsets by (topic, partition), such as {{('t', 0): 3}}, not {offsets!r}"
        )


def setting_texts(asked: str, settings: object) -> dict[str, str]:
    """Return settings as texts. A timedelta becomes a number in the unit of the setting's name."""
    if not isinstance(settings, Mapping):
        raise EmbeddedBrokerError(f"{asked} needs a mapping of names to values, not {settings!r}")
    return {checked_name(f"{asked}: a name", name): _setting_text(asked, name, settings[name]) for name in settings}


def _setting_text(asked: str, name: str, value: object) -> str:
    if isinstance(value, timedelta):
        unit = UNITS.get(name.rpartition(".")[2])
        if unit is None:
            raise EmbeddedBrokerError(f"{asked}: {name} is not a time, so it cannot be {value!r}")
        return str(round(value / timedelta(milliseconds=MS_PER_UNIT[unit])))
    if isinstance(value, list | tuple):
        return ",".join(_setting_text(asked, name, each) for each in value)
    if not isinstance(value, str | int | float):
        raise EmbeddedBrokerError(f"{asked}: {name} needs a text, a number, a bool or a timedelta, not {value!r}")
    return property_text(value)
