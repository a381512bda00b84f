"""Differences between the records of a topic and those that a test expects."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from pipeline_broker.embedded.contents import encoded
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.json_values import expected_json, found_json
from pipeline_broker.embedded.shown import Record

__all__ = ["Expected", "difference", "expected_list"]

Expected: TypeAlias = object
"""A value, or a pair of key and value."""
Compared: TypeAlias = tuple[bytes | str | None, ...]

ASKED = "assert_records"
LINES_MAX = 200
CONTEXT = 3
"""The equal records that are shown before and after a difference; further ones are counted."""
CHARACTERS_MAX = 1_000  # of a key or value


def difference(
    records: Sequence[Record], expected: Iterable[Expected], *, any_order: bool, json: bool = False
) -> str | None:
    """Return the differences between two lists of records as lines of text, or None if they are equal.

    Args:
        expected: values, to compare without keys, or (key, value) pairs. Text stands for its UTF-8 bytes.
        any_order: compare only how often each record occurs.
        json: compare values as JSON; `expected` has the Python objects of the documents.

    Raises:
        EmbeddedBrokerError: `expected` mixes values and pairs, or has an item that is not text, bytes or None, or that
            JSON cannot express.
    """
    wanted = list(expected)
    pairs = [each for each in wanted if isinstance(each, tuple)]
    if pairs and (len(pairs) < len(wanted) or any(len(pair) != 2 for pair in pairs)):
        raise EmbeddedBrokerError("assert_records: give values, or give (key, value) pairs for all records")
    compared = expected_json if json else _encoded_value
    right = [
        (encoded(ASKED, each[0]), compared(ASKED, each[1])) if isinstance(each, tuple) else (compared(ASKED, each),)
        for each in wanted
    ]
    values = [found_json(record.value) if json else record.value for record in records]
    left = [(record.key, value) if pairs else (value,) for record, value in zip(records, values, strict=True)]
    lines = _unordered(left, right) if any_order else _ordered(records, left, right)
    if lines is None:
        return None
    head = f"expected {len(wanted)}, found {len(records)} (- missing, + unexpected):"
    more = [f"  ... and {len(lines) - LINES_MAX} lines more"] if len(lines) > LINES_MAX else []
    return "\n".join([head, *lines[:LINES_MAX], *more])


def _encoded_value(asked: str, value: object) -> bytes | None:
    try:
        return encoded(asked, value)
    except EmbeddedBrokerError as error:
        raise EmbeddedBrokerError(f"{error}, or compare JSON with json=True") from None


def expected_list(expected: Iterable[Expected]) -> list[Expected]:
    if isinstance(expected, str | bytes | Mapping) or not isinstance(expected, Iterable):
        raise EmbeddedBrokerError(f"assert_records: expected needs a list of values or pairs, not {expected!r}")
    return list(expected)


def _unordered(left: Sequence[Compared], right: Sequence[Compared]) -> list[str] | None:
    there, wanted = Counter(left), Counter(right)
    if there == wanted:
        return None
    missing, extra = wanted - there, there - wanted
    return [f"- {_shown(each)}" for each in missing.elements()] + [f"+ {_shown(each)}" for each in extra.elements()]


def _ordered(records: Sequence[Record], left: Sequence[Compared], right: Sequence[Compared]) -> list[str] | None:
    if list(left) == list(right):
        return None

    def found(sign: str, places: Iterable[int]) -> list[str]:
        return [f"{sign} {_shown(left[place])}  at {_place(records[place])}" for place in places]

    lines = []
    matcher = difflib.SequenceMatcher(None, right, left, autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind != "equal":
            lines += [f"- {_shown(each)}" for each in right[first:last]] + found("+", range(begin, end))
            continue
        # Like the context of a unified diff: the records after the difference before, and before the one after.
        above = begin + CONTEXT if begin or first else 0
        below = end - CONTEXT if end < len(left) or last < len(right) else end
        if below - above > 1:
            hidden = [f"  ... {below - above} equal records"]
            lines += found(" ", range(begin, above)) + hidden + found(" ", range(below, end))
        else:
            lines += found(" ", range(begin, end))
    return lines


def _place(record: Record) -> str:
    return f"{record.topic}[{record.partition}] offset {record.offset}"


def _shown(compared: Compared) -> str:
    return ": ".join(map(_content, compared))


def _content(content: bytes | str | None) -> str:
    if content is None:
        return "null"
    if isinstance(content, str):  # JSON
        text = content
    else:
        try:
            text = repr(content.decode())
        except UnicodeDecodeError:
            text = repr(content)
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}... ({len(content)} bytes)"
