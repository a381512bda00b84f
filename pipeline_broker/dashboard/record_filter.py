"""Filters of records by key, value, header, or a field of a JSON value."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from pipeline_broker.records.record import Record

__all__ = ["BadFilterError", "RecordFilter"]

FILTER_CHARACTERS_MAX = 512  # of each part
SEARCHED_BYTES = 64 * 1024
# A longer value is not parsed, and does not pass a filter of fields.
JSON_BYTES_MAX = 64 * 1024


class BadFilterError(ValueError):
    pass


def _contains(text: bytes, content: bytes | None) -> bool:
    if content is None:
        return False
    wanted = text.lower()
    # `lower` and `in` hold the interpreter lock, so a large value is searched in pieces. Pieces overlap by the text.
    pieces = range(0, max(1, len(content)), SEARCHED_BYTES)
    return any(wanted in content[begin : begin + SEARCHED_BYTES + len(text)].lower() for begin in pieces)


def _compare(found: Any, number: float, holds: Callable[[float, float], bool]) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool) and holds(found, number)


COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
# A sign comes before its own prefixes.
SIGNS = ("!=", ">=", "<=", "==", "=", ">", "<")


def _field(text: str) -> tuple[tuple[str, ...], Callable[[Any], bool]]:
    end = min((place for place in map(text.find, "!=<>") if place >= 0), default=len(text))
    path, sign = tuple(text[:end].strip().split(".")), next(filter(text[end:].startswith, SIGNS), "")
    if not all(path) or (not sign and end < len(text)):
        raise BadFilterError(
            "a JSON filter must be field, field=text, field!=text or field>100; a nested field is a.b or a.0.b"
        )
    wanted = text[end + len(sign) :].strip()
    if not sign:
        return path, lambda _: True
    if sign in COMPARISONS:
        try:
            number = float(wanted)
        except ValueError:
            raise BadFilterError(f"a JSON filter with {sign} needs a number, not {wanted!r}") from None
        return path, lambda found: _compare(found, number, COMPARISONS[sign])
    return path, lambda found: (_text_of(found) == wanted) is (sign != "!=")


def _pair(text: str) -> tuple[str, str | None]:
    name, separator, wanted = text.partition("=")
    return name.strip(), wanted.strip() if separator else None


@attrs.frozen
class RecordFilter:
    """A conjunction of conditions on a record; an empty filter matches every record.

    Texts are compared as UTF-8 bytes. ASCII letters match in any case.

    Attributes:
        key: bytes that the key contains.
        value: bytes that the value contains.
        header: the name of a header, and a text that its content contains; None for any content.
        field: the path to a field of the JSON value, and a predicate. A value without the field does not match.
    """

    key: bytes = b""
    value: bytes = b""
    header: tuple[str, str | None] | None = None
    field: tuple[tuple[str, ...], Callable[[Any], bool]] | None = None

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> RecordFilter:
        """Parse the parameters `key`, `value`, `header` (`name` or `name=text`) and `json` (`path=text`, `path>1`).

        Raises:
            BadFilterError: a part is too long or invalid.
        """
        for name in ("key", "value", "header", "json"):
            if len(query.get(name, "")) > FILTER_CHARACTERS_MAX:
                raise BadFilterError(f"the {name} filter has more than {FILTER_CHARACTERS_MAX} characters; shorten it")
        header = _pair(query["header"]) if query.get("header") else None
        if header is not None and not header[0]:
            raise BadFilterError("a header filter needs a name before the equals sign")
        return cls(
            key=query.get("key", "").encode(errors="replace"),
            value=query.get("value", "").encode(errors="replace"),
            header=header,
            field=_field(query["json"]) if query.get("json") else None,
        )

    @property
    def is_empty(self) -> bool:
        return self == RecordFilter()

    def matches(self, record: Record) -> bool:
        if self.key and not _contains(self.key, record.key):
            return False
        if self.value and not _contains(self.value, record.value):
            return False
        if self.header is not None and not self._has_header(record, *self.header):
            return False
        return self.field is None or self._has_field(record, *self.field)

    def is_too_large(self, record: Record) -> bool:
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
    # A filter writes strings without quotes.
    return found if isinstance(found, str) else json.dumps(found)
