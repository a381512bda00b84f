"""Whether a topic has exactly the records that a test expects, and if not, where they differ.

Rules of this file: synchronous, values only. Expected are values, or pairs of key and value; text stands for UTF-8.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from pipeline_broker.embedded.contents import Content, encoded
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.shown import Record

__all__ = ["Expected", "difference"]

Expected: TypeAlias = Content | tuple[Content, Content]
Compared: TypeAlias = tuple[bytes | None, ...]

LINES_MAX = 200
CHARACTERS_MAX = 1_000
"""Of one key or value."""


def difference(records: Sequence[Record], expected: Iterable[Expected], *, any_order: bool) -> str | None:
    """How the records differ from those that are expected, in lines; None where they do not.

    Args:
        records: that there are.
        expected: all of them values, which leaves the keys open, or all of them pairs of key and value.
        any_order: only how often each is there counts.

    Raises:
        EmbeddedBrokerError: values and pairs are mixed, or something is neither text nor bytes nor None.
    """
    wanted = list(expected)
    pairs = [each for each in wanted if isinstance(each, tuple)]
    if pairs and (len(pairs) < len(wanted) or any(len(pair) != 2 for pair in pairs)):
        raise EmbeddedBrokerError("assert_records: expect values, or pairs (key, value) of all records")
    contents = [each if isinstance(each, tuple) else (each,) for each in wanted]
    right = [tuple(encoded("assert_records", content) for content in each) for each in contents]
    left = [(record.key, record.value) if pairs else (record.value,) for record in records]
    lines = _unordered(left, right) if any_order else _ordered(records, left, right)
    if lines is None:
        return None
    head = f"expected {len(wanted)}, found {len(records)} (- is missing, + is too much):"
    more = [f"  ... and {len(lines) - LINES_MAX} lines more"] if len(lines) > LINES_MAX else []
    return "\n".join([head, *lines[:LINES_MAX], *more])


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
