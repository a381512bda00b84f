"""JSON with partitions of topics, `{"topic": [0, 1]}`, or with a number for each, `{"topic": {"0": 23}}`.

As in Spark's Kafka source, every number is a JSON integer and every list is a JSON array. A lenient reader would take
`"01"` for the partitions 0 and 1.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MAX", "numbers_of", "partitions_of", "whole_number"]

MAX = 2**63 - 1
"""Of offsets and times."""
WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)


def whole_number(text: str) -> int:
    """Read a number of 64 bits as Java's `Long.parseLong` does, without blanks around it; raises ValueError."""
    number = int(text) if WHOLE.fullmatch(text.strip()) else None
    if number is None or not -MAX <= number <= MAX:
        raise ValueError(f"{text!r} is not a 64-bit integer")
    return number


def partitions_of(option: str, text: str) -> frozenset[tuple[str, int]]:
    """Read partitions by topic; raises ValueError."""
    found = set()
    for topic, numbers in _topics(option, text, '{"topic": [0, 1]}'):
        if not isinstance(numbers, list) or not all(_is_partition(number) for number in numbers):
            raise ValueError(f"{option} has no list of partitions for {topic}: {text}")
        found |= {(topic, number) for number in numbers}
    return frozenset(found)


def numbers_of(option: str, text: str) -> dict[tuple[str, int], int]:
    """Read a number for each partition of topics; raises ValueError."""
    example = '{"topic": {"0": 23}}'
    found = {}
    for topic, numbers in _topics(option, text, example):
        if not isinstance(numbers, dict):
            raise ValueError(f"{option} is not JSON like {example}: {text}")  # noqa: TRY004 - it is the user's text
        for partition, number in numbers.items():
            if not re.fullmatch("[0-9]{1,10}", partition, re.ASCII):
                raise ValueError(f"{option} has {partition!r} for the number of a partition: {text}")
            if isinstance(number, bool) or not isinstance(number, int) or not -MAX <= number <= MAX:
                raise ValueError(f"{option} has {json.dumps(number)} for {topic}-{partition}, which is not an integer")
            found[topic, int(partition)] = number
    return found


def _is_partition(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _topics(option: str, text: str, example: str) -> Iterator[tuple[str, Any]]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{option} is not JSON like {example}: {text}")  # noqa: TRY004 - it is the user's text
    yield from found.items()
