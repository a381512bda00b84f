"""JSON options with partitions by topic, `{"topic": [0, 1]}`, or a number per partition, `{"topic": {"0": 23}}`.

As in Spark's Kafka source, every number must be a JSON integer and every list a JSON array. A lenient reader would
read `"01"` as the partitions 0 and 1.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MAX", "numbers_of", "partitions_of", "whole_number"]

MAX = 2**63 - 1
"""The largest offset or time."""
WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)


def whole_number(text: str) -> int:
    """Read a 64-bit integer like Java's `Long.parseLong`, ignoring surrounding blanks.

    Raises:
        ValueError: the text is not an integer, or is out of range.
    """
    number = int(text) if WHOLE.fullmatch(text.strip()) else None
    if number is None or not -MAX <= number <= MAX:
        raise ValueError(f"{text!r} is not a 64-bit integer")
    return number


def partitions_of(option: str, text: str) -> frozenset[tuple[str, int]]:
    """Read partitions by topic, `{"topic": [0, 1]}`, as pairs of topic and number.

    Raises:
        ValueError: the text has another form; the message names the option.
    """
    found = set()
    for topic, numbers in _topics(option, text, '{"topic": [0, 1]}'):
        if not isinstance(numbers, list) or not all(_is_partition(number) for number in numbers):
            raise ValueError(f"{option} has no list of partition numbers for {topic}: {text}")
        found |= {(topic, number) for number in numbers}
    return frozenset(found)


def numbers_of(option: str, text: str) -> dict[tuple[str, int], int]:
    """Read one number per partition, such as `{"topic": {"0": 23}}`, to a mapping by topic and partition.

    Raises:
        ValueError: the text has another form, or a number is not a 64-bit integer; the message names the option.
    """
    example = '{"topic": {"0": 23}}'
    found = {}
    for topic, numbers in _topics(option, text, example):
        if not isinstance(numbers, dict):
            raise _unlike(option, example, text)
        for partition, number in numbers.items():
            if not re.fullmatch("[0-9]{1,10}", partition, re.ASCII):
                raise ValueError(f"{option} has {partition!r}, which is not a partition number: {text}")
            if isinstance(number, bool) or not isinstance(number, int) or not -MAX <= number <= MAX:
                raise ValueError(
                    f"{option} has {json.dumps(number)} for {topic}-{partition}, which is not a 64-bit integer"
                )
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
        raise _unlike(option, example, text)
    yield from found.items()


def _unlike(option: str, example: str, text: str) -> ValueError:
    return ValueError(f"{option} is not JSON like {example}: {text}")
