"""One record as a page may show it: texts of bounded length, and what they are.

Rules of this file: sans-IO. A key, value or header is text where it is valid UTF-8, else hexadecimal; of either only
the beginning is shown, with the size of the whole. A text may say anything: the page shows it as text, isolated from
the direction of what stands around it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from pipeline_broker.records.record import Record

__all__ = ["BYTES_SHOWN_MAX", "HEADERS_SHOWN_MAX", "Coded", "Decoder", "Show", "content_view", "record_view"]

BYTES_SHOWN_MAX = 2048
"""Of one key, value or header."""
HEADERS_SHOWN_MAX = 16
HEX_BYTES_SHOWN_MAX = 256
HEADER_NAME_CHARACTERS_MAX = 256


class Decoder(Protocol):
    """Reads keys and values that a serializer wrote with a schema that the broker keeps."""

    async def decode(self, contents: Sequence[bytes]) -> Sequence[tuple[int, str, int] | None]:
        """For each content the id of its schema, the beginning of its JSON and all characters of that; or None."""


CODED_BYTES_MAX = 4 << 20
"""Of the contents of a page that are kept until they are decoded; beyond it those that were noted first are dropped."""


class Coded:
    """Contents of a page that a serializer may have written, by the views that show them."""

    def __init__(self) -> None:
        self._noted: OrderedDict[int, tuple[dict[str, Any], bytes]] = OrderedDict()
        self._size_bytes = 0

    def note(self, view: dict[str, Any] | None, content: bytes | None) -> None:
        """Remember a content that begins like those of serializers."""
        if view is None or not content or content[0] != 0:
            return
        self._noted[id(view)] = view, bytes(content)
        self._size_bytes += len(content)
        while self._size_bytes > CODED_BYTES_MAX:
            _, (_, dropped) = self._noted.popitem(last=False)
            self._size_bytes -= len(dropped)

    async def decode(self, records: Sequence[dict[str, Any]], decoder: Decoder) -> None:
        """Let records of the page show the JSON that their contents mean, with the id of its schema as `schema`."""
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
"""`record_view`, with the contents that it notes."""


def content_view(content: bytes | None) -> dict[str, Any] | None:
    """The beginning of some bytes: `text` or `hex`, the size of the whole in bytes, and whether it was cut."""
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
        text = beginning[: error.start].decode()  # the cut went through a character
    return {"text": text, "bytes": len(content), "cut": is_cut}


def record_view(partition: int, record: Record, coded: Coded | None = None) -> dict[str, Any]:
    """A record of a partition; its key and value are noted in `coded`."""
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
