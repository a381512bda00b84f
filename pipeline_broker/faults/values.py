"""Values of fault rules as people write them: texts, whole numbers, probabilities and times.

Each function returns a checked value, or raises FaultError with a text such as "nth needs a whole number, not 'x'".
"""

from __future__ import annotations

import contextlib
import math
import re
from datetime import timedelta
from typing import SupportsIndex

from pipeline_broker.base.duration import seconds_of
from pipeline_broker.faults.names import FaultError

__all__ = ["chance", "seconds", "text", "whole_number"]

WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise FaultError(f"{name} needs a text, not {value!r}")
    return value


def whole_number(name: str, value: object) -> int:
    if isinstance(value, str) and WHOLE_NUMBER.fullmatch(value):
        return int(value)
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        raise FaultError(f"{name} needs a whole number, not {value!r}")
    return int(value)


def chance(name: str, value: object) -> float:
    if not isinstance(value, bool | timedelta):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            return float(value)  # type: ignore[arg-type]  # a TypeError is suppressed
    raise FaultError(f"{name} needs a number, not {value!r}")


def seconds(name: str, value: object, bare: str | None = None) -> float:
    found = seconds_of(value, bare)
    if found is None or not math.isfinite(found):
        raise FaultError(f"{name} needs a time such as 200ms or 1s, not {value!r}")
    return found
