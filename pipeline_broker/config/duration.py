"""Times as people write them on a command line: 10ms, 300us, 1s; a bare number counts milliseconds."""

import re

__all__ = ["milliseconds"]

_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s)?")
_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def milliseconds(text: str) -> float | None:
    """The time in milliseconds; None when the text is not one."""
    match = _FORM.fullmatch(text)
    return None if match is None else float(match[1]) * _MS[match[2] or "ms"]
