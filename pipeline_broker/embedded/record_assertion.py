"""Differences between the records of a topic and those that a test expects."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from pipeline_broker.embedded.contents import Content, encoded
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.shown import Record

__all__ = ["Expected", "difference", "expected_list"]

Expected: TypeAlias = Content | tuple[Content, Content]
Compared: TypeAlias = tuple[bytes | None, ...]

LINES_MAX = 200
CHARACTERS_MAX = 1_000  # of a key or value


def difference(records: Sequence[Record], expected: Iterable[Expected], *, any_order: bool) -> str | None:
    """Return the differences between two lists of records as lines of text, or None if they are equal.

    Args:
        expected: values, to compare without keys, or (key, value) pairs. Text stands for its UTF-8 bytes.
        any_order: compare only how often each record occurs.

    Raises:
        EmbeddedBrokerError: `expected` mixes values and pairs, or has an item that is not text, bytes or None.
    """
    wanted = list(expected)
    pairs = [each for each in wanted if isinstance(each, tuple)]
    if pairs and (len(pairs) < len(wanted) or any(len(pair) != 2 for pair in pairs)):
        raise EmbeddedBrokerError("assert_records: give values, or give (key, value) pairs for all records")
    contents = [each if isinstance(each, tuple) else (each,) for each in wanted]
    right = [tuple(encoded("assert_records", content) for content in each) for each in contents]
    left = [(record.key, record.value) if pairs else (record.value,) for record in records]
    lines = _unordered(left, right) if any_order else _ordered(records, left, right)
    if lines is None:
        return None
    head = f"expected {len(wanted)}, found {len(records)} (- missing, + unexpected):"
    more = [f"  ... and {len(lines) - LINES_MAX} lines more"] if len(lines) > LINES_MAX else []
    return "\n".join([head, *lines[:LINES_MAX], *more])


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
    lines = []
    matcher = difflib.SequenceMatcher(None, right, left, autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind != "equal":
            lines += [f"- {_shown(each)}" for each in right[first:last]]
        sign = " " if kind == "equal" else "+"
        lines += [f"{sign} {_shown(left[place])}  at {_place(records[place])}" for place in range(begin, end)]
    return lines


def _place(record: Record) -> str:
    return f"{record.topic}[{record.partition}] offset {record.offset}"


def _shown(compared: Compared) -> str:
    return ": ".join(map(_content, compared))


def _content(content: bytes | None) -> str:
    if content is None:
        return "null"
    try:
        text = repr(content.decode())
    except UnicodeDecodeError:
        text = repr(content)
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}... ({len(content)} bytes)"
