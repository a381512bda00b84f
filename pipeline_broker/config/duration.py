"""Times as people write them on a command line: 10ms, 300us, 1s."""

import re

__all__ = ["MS_PER_UNIT", "milliseconds"]

_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s)?")
MS_PER_UNIT = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def milliseconds(text: str, bare: str = "ms") -> float | None:
    """The time in milliseconds; None when the text is not one.

    Args:
        text: a number, with a unit or without.
        bare: the unit of a number without one.
    """
    match = _FORM.fullmatch(text)
    return None if match is None else float(match[1]) * MS_PER_UNIT[match[2] or bare]
