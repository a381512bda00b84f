"""Strict parsing of numbers in texts from outside."""

from __future__ import annotations

import math
import re

__all__ = ["INT32", "INT64", "decimal_number", "whole_number"]

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)
# Bounded ASCII digits: `int` raises for more than 4,300 digits, `float` returns infinity for `1e400`, and both accept
# underscores and digits of other scripts.
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?")


def whole_number(text: str, low: int = INT64[0], high: int = INT64[1]) -> int | None:
    if not _WHOLE.fullmatch(text):
        return None
    number = int(text)
    return number if low <= number <= high else None


def decimal_number(text: str) -> float | None:
    if not _DECIMAL.fullmatch(text):
        return None
    number = float(text)
    return number if math.isfinite(number) else None
