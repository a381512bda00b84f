"""Times in texts: 10ms, 300us, 1s as people write them on a command line, and PT1H30M as ISO 8601 does."""

import re

from pipeline_broker.base.numbers import INT64

__all__ = ["BY_DURATION", "MS_PER_UNIT", "iso_milliseconds", "milliseconds"]

_FORM = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s{0,9}(us|ms|s)?")
MS_PER_UNIT = {"us": 1e-3, "ms": 1.0, "s": 1e3}
BY_DURATION = "by_duration:"
"""The beginning of a duration in `share.auto.offset.reset`."""
_ISO = re.compile(
    r"P(?=[0-9]|T[0-9])(?:([0-9]{1,20})D)?"
    r"(?:T(?=[0-9])(?:([0-9]{1,20})H)?(?:([0-9]{1,20})M)?(?:([0-9]{1,20})(?:\.([0-9]{1,9}))?S)?)?",
    re.IGNORECASE,
)
_MS_PER_PART = (86_400_000, 3_600_000, 60_000, 1_000)


def milliseconds(text: str, bare: str = "ms") -> float | None:
    """The time in milliseconds; None when the text is not one.

    Args:
        text: a number, with a unit or without.
        bare: the unit of a number without one.
    """
    match = _FORM.fullmatch(text)
    return None if match is None else float(match[1]) * MS_PER_UNIT[match[2] or bare]


def iso_milliseconds(text: str) -> int | None:
    """Return a duration of ISO 8601 in days and smaller units, as Java reads it, in milliseconds.

    Returns:
        None if it is another text, negative, or more milliseconds than a long has.
    """
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    *parts, fraction = match.groups()
    whole_ms = sum(int(part or 0) * unit_ms for part, unit_ms in zip(parts, _MS_PER_PART, strict=True))
    duration_ms = whole_ms + int((fraction or "0").ljust(9, "0")) // 1_000_000
    return duration_ms if duration_ms <= INT64[1] else None
