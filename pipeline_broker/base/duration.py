"""Durations as texts: `10ms`, `300us` or `1s` on the command line, and ISO 8601 such as `PT1H30M`."""

import re
from datetime import timedelta
from typing import TypeAlias

from pipeline_broker.base.numbers import INT64

__all__ = ["BY_DURATION", "MS_PER_UNIT", "Duration", "iso_milliseconds", "milliseconds", "seconds_of"]

Duration: TypeAlias = float | str | timedelta
"""Seconds, a text with a unit such as `250ms`, or a timedelta."""


_FORM = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s{0,9}([a-z]{1,12})?")
MS_PER_UNIT = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1e3),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 6e4),
    **dict.fromkeys(("h", "hour", "hours"), 3.6e6),
    **dict.fromkeys(("d", "day", "days"), 8.64e7),
}
BY_DURATION = "by_duration:"
"""Prefix of a duration in `share.auto.offset.reset`."""
_ISO = re.compile(
    r"P(?=[0-9]|T[0-9])(?:([0-9]{1,20})D)?"
    r"(?:T(?=[0-9])(?:([0-9]{1,20})H)?(?:([0-9]{1,20})M)?(?:([0-9]{1,20})(?:\.([0-9]{1,9}))?S)?)?",
    re.IGNORECASE,
)
_MS_PER_PART = (86_400_000, 3_600_000, 60_000, 1_000)


def milliseconds(text: str, bare: str = "ms") -> float | None:
    """Return a duration such as `10ms` in milliseconds, or None if the text has another form.

    Args:
        text: a decimal number with an optional unit of MS_PER_UNIT.
        bare: the unit of a number without one.
    """
    match = _FORM.fullmatch(text)
    factor = None if match is None else MS_PER_UNIT.get(match[2] or bare)
    return None if match is None or factor is None else float(match[1]) * factor


def seconds_of(value: object, bare: str | None = None) -> float | None:
    """Return a `Duration` in seconds, or None if the value has another form.

    Args:
        bare: the unit of numbers, and of texts without a unit. None: numbers are seconds, and texts need a unit.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        written = value.strip()
        if bare is None and written[-1:].isdigit():
            return None
        found = milliseconds(written, bare or "s")
        if found is None:
            found = iso_milliseconds(written)
        return None if found is None else found / 1000
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return None
    try:
        return float(value) * MS_PER_UNIT[bare or "s"] / 1000
    except OverflowError:  # a whole number beyond 10**308
        return None


def iso_milliseconds(text: str) -> int | None:
    """Return an ISO 8601 duration of days, hours, minutes and seconds in milliseconds, parsed like java.time.Duration.

    Returns:
        None if the text has another form, is negative, or exceeds 64 bits.
    """
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    *parts, fraction = match.groups()
    whole_ms = sum(int(part or 0) * unit_ms for part, unit_ms in zip(parts, _MS_PER_PART, strict=True))
    duration_ms = whole_ms + int((fraction or "0").ljust(9, "0")) // 1_000_000
    return duration_ms if duration_ms <= INT64[1] else None
