"""A record as bounded JSON.

A key, value or header is text if it is valid UTF-8, else hexadecimal. Long contents are cut and have their full size.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from pipeline_broker.records.record import Record

__all__ = ["BYTES_SHOWN_MAX", "HEADERS_SHOWN_MAX", "Coded", "Decoder", "Show", "content_view", "record_view"]

BYTES_SHOWN_MAX = 2048
"""The bytes of a key, value or header that a page shows."""
HEADERS_SHOWN_MAX = 16
HEX_BYTES_SHOWN_MAX = 256
HEADER_NAME_CHARACTERS_MAX = 256


class Decoder(Protocol):
    """A decoder of keys and values that were serialized with a schema of the broker's registry."""

    async def decode(self, contents: Sequence[bytes]) -> Sequence[tuple[int, str, int] | None]:
        """Return for each content its schema id, the beginning of its JSON, and the length of that JSON in characters.

        The entry of a content that cannot be decoded is None.
        """


# Bounds the serialized contents of a page that wait to be decoded; the oldest are dropped first.
CODED_BYTES_MAX = 4 << 20


class Coded:
    """The contents of a page that may be serialized, by the view that shows them."""

    def __init__(self) -> None:
        self._noted: OrderedDict[int, tuple[dict[str, Any], bytes]] = OrderedDict()
        self._size_bytes = 0

    def note(self, view: dict[str, Any] | None, content: bytes | None) -> None:
        if view is None or not content or content[0] != 0:  # serializers write the magic byte 0 and the schema id
            return
        self._noted[id(view)] = view, bytes(content)
        self._size_bytes += len(content)
        while self._size_bytes > CODED_BYTES_MAX:
            _, (_, dropped) = self._noted.popitem(last=False)
            self._size_bytes -= len(dropped)

    async def decode(self, records: Sequence[dict[str, Any]], decoder: Decoder) -> None:
        """Replace serialized keys and values of `records` by their JSON, and add the schema id as `schema`."""
        views = [view for record in records for view in (record["key"], record["value"])]
        noted = [self._noted[id(view)] for view in views if id(view) in self._noted]
        decoded = await decoder.decode([content for _, content in noted])
        for (view, _), found in zip(noted, decoded, strict=True):
            if found is not None:
                schema_id, text, characters = found
                beginning = text[:BYTES_SHOWN_MAX]
                view.pop("hex", None)
                view.update(text=beginning, cut=len(beginning) < characters, schema=schema_id)


Show: TypeAlias = Callable[[int, Record], dict[str, Any]]
"""`record_view` with its `coded` argument bound."""


def content_view(content: bytes | None) -> dict[str, Any] | None:
    """Return the beginning of a content as `text` or `hex`, its size in bytes, and whether it was cut.

    The result is None for a content of None.
    """
    if content is None:
        return None
    beginning = content[:BYTES_SHOWN_MAX]
    is_cut = len(content) > BYTES_SHOWN_MAX
    try:
        text = beginning.decode()
    except UnicodeDecodeError as error:
        if not is_cut or error.start < len(beginning) - 3 or error.reason != "unexpected end of data":
            shown = content[:HEX_BYTES_SHOWN_MAX]
            return {"hex": shown.hex(" "), "bytes": len(content), "cut": len(content) > HEX_BYTES_SHOWN_MAX}
        text = beginning[: error.start].decode()  # the limit split a character
    return {"text": text, "bytes": len(content), "cut": is_cut}


def record_view(partition: int, record: Record, coded: Coded | None = None) -> dict[str, Any]:
    key, value = content_view(record.key), content_view(record.value)
    if coded is not None:
        coded.note(key, record.key)
        coded.note(value, record.value)
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": key,
        "value": value,
        "headers": [
            {"name": name[:HEADER_NAME_CHARACTERS_MAX], "content": content_view(content)}
            for name, content in record.headers[:HEADERS_SHOWN_MAX]
        ],
        "headers_count": len(record.headers),
    }
