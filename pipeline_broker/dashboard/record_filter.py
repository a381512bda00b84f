"""Which records somebody wants to see: by key, header, value, or a field of a JSON value.

Rules of this file: sans-IO; what is given must all be true of a record. A filter is text of bounded length; text is
looked for in UTF-8 as it stands, in any case of letters only where both are ASCII.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from pipeline_broker.records.record import Record

__all__ = ["BadFilterError", "RecordFilter"]

FILTER_CHARACTERS_MAX = 512
"""Of each part."""
SEARCHED_BYTES = 64 * 1024
"""Of a key, value or header in one go."""
JSON_BYTES_MAX = 64 * 1024
"""A longer value is not read as JSON, and has no fields."""


class BadFilterError(ValueError):
    """The filter cannot be understood; the text is one line that says why."""


def _contains(text: bytes, content: bytes | None) -> bool:
    if content is None:
        return False
    wanted = text.lower()
    pieces = range(0, max(1, len(content)), SEARCHED_BYTES)  # one by one: C code keeps the interpreter for itself
    return any(wanted in content[begin : begin + SEARCHED_BYTES + len(text)].lower() for begin in pieces)


def _compare(found: Any, number: float, holds: Callable[[float, float], bool]) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool) and holds(found, number)


COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
SIGNS = ("!=", ">=", "<=", "==", "=", ">", "<")
"""Of two that begin alike the longer one first."""


def _field(text: str) -> tuple[tuple[str, ...], Callable[[Any], bool]]:
    """The steps to a field of a JSON value, and what is asked of it."""
    end = min((place for place in map(text.find, "!=<>") if place >= 0), default=len(text))
    path, sign = tuple(text[:end].strip().split(".")), next(filter(text[end:].startswith, SIGNS), "")
    if not all(path) or (not sign and end < len(text)):
        raise BadFilterError("the filter of json is field, field=text, field!=text or field>100; field is a.b or a.0.b")
    wanted = text[end + len(sign) :].strip()
    if not sign:
        return path, lambda _: True
    if sign in COMPARISONS:
        try:
            number = float(wanted)
        except ValueError:
            raise BadFilterError(f"the filter of json compares numbers: {wanted!r} is not one") from None
        return path, lambda found: _compare(found, number, COMPARISONS[sign])
    return path, lambda found: (_text_of(found) == wanted) is (sign != "!=")


def _pair(text: str) -> tuple[str, str | None]:
    """`name` or `name=text`."""
    name, separator, wanted = text.partition("=")
    return name.strip(), wanted.strip() if separator else None


@attrs.frozen
class RecordFilter:
    """See the rules of the file; an empty one lets every record pass.

    Attributes:
        key: text that the key contains.
        value: text that the value contains.
        header: name of a header that there is, and text that it contains, if any.
        field: steps to a field of the JSON value, and what is asked of it; a value without the field does not pass.
    """

    key: bytes = b""
    value: bytes = b""
    header: tuple[str, str | None] | None = None
    field: tuple[tuple[str, ...], Callable[[Any], bool]] | None = None

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> RecordFilter:
        """The filter of a query: `key`, `value`, `header` (`name`, `name=text`), `json` (`path=text`, `path>1`).

        Raises:
            BadFilterError: a part is too long, or has no name.
        """
        for name in ("key", "value", "header", "json"):
            if len(query.get(name, "")) > FILTER_CHARACTERS_MAX:
                raise BadFilterError(f"the filter of {name} is longer than {FILTER_CHARACTERS_MAX} characters")
        header = _pair(query["header"]) if query.get("header") else None
        if header is not None and not header[0]:
            raise BadFilterError("the filter of header needs a name in front of the equals sign")
        return cls(
            key=query.get("key", "").encode(errors="replace"),
            value=query.get("value", "").encode(errors="replace"),
            header=header,
            field=_field(query["json"]) if query.get("json") else None,
        )

    @property
    def is_empty(self) -> bool:
        """Whether every record passes."""
        return self == RecordFilter()

    def matches(self, record: Record) -> bool:
        """Whether a record is wanted."""
        if self.key and not _contains(self.key, record.key):
            return False
        if self.value and not _contains(self.value, record.value):
            return False
        if self.header is not None and not self._has_header(record, *self.header):
            return False
        return self.field is None or self._has_field(record, *self.field)

    def is_too_large(self, record: Record) -> bool:
        """Return whether the value of a record is too large to look for the field."""
        return self.field is not None and record.value is not None and len(record.value) > JSON_BYTES_MAX

    @staticmethod
    def _has_header(record: Record, name: str, wanted: str | None) -> bool:
        return any(
            header == name and (wanted is None or _contains(wanted.encode(errors="replace"), content))
            for header, content in record.headers
        )

    @staticmethod
    def _has_field(record: Record, path: tuple[str, ...], is_wanted: Callable[[Any], bool]) -> bool:
        if record.value is None or len(record.value) > JSON_BYTES_MAX:
            return False
        try:
            found: Any = json.loads(record.value)
        except (ValueError, RecursionError):
            return False
        for step in path:
            if isinstance(found, dict) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isascii() and step.isdigit() and int(step) < len(found):
                found = found[int(step)]
            else:
                return False
        return is_wanted(found)


def _text_of(found: Any) -> str:
    """A JSON value as somebody writes it into a filter: texts without quotes."""
    return found if isinstance(found, str) else json.dumps(found)
