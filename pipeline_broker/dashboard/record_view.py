"""One record as a page may show it: texts of bounded length, and what they are.

Rules of this file: sans-IO. A key, value or header is text where it is valid UTF-8, else hexadecimal; of either only
the beginning is shown, with the size of the whole. A text may say anything: the page shows it as text, isolated from
the direction of what stands around it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from pipeline_broker.records.record import Record

__all__ = ["BYTES_SHOWN_MAX", "HEADERS_SHOWN_MAX", "Decoder", "Show", "content_view", "record_view", "show_of"]

BYTES_SHOWN_MAX = 2048
"""Of one key, value or header."""
HEADERS_SHOWN_MAX = 16
HEX_BYTES_SHOWN_MAX = 256
HEADER_NAME_CHARACTERS_MAX = 256


class Decoder(Protocol):
    """Reads what a serializer wrote with a schema that the broker keeps."""

    async def catch_up(self) -> None:
        """Learn the schemas that there are by now."""

    def decode(self, content: bytes) -> tuple[int, str] | None:
        """The id of the schema, and what is said, as JSON; None where that is none; from any thread."""


Show: TypeAlias = Callable[[int, Record], dict[str, Any]]
"""`record_view`, with what it decodes by."""


def show_of(decoder: Decoder | None) -> Show:
    """How records are shown where there are schemas, or none."""
    return record_view if decoder is None else functools.partial(record_view, decode=decoder.decode)


def content_view(
    content: bytes | None, decode: Callable[[bytes], tuple[int, str] | None] = lambda _: None
) -> dict[str, Any] | None:
    """The beginning of some bytes: `text` or `hex`, the size of the whole in bytes, and whether it was cut.

    What a serializer wrote is shown as the JSON that it means, with the id of its schema as `schema`.
    """
    if content is None:
        return None
    decoded = decode(content)
    if decoded is not None:
        schema_id, said = decoded
        shown_text = said[:BYTES_SHOWN_MAX]
        return {"text": shown_text, "bytes": len(content), "cut": len(shown_text) < len(said), "schema": schema_id}
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


def record_view(
    partition: int, record: Record, decode: Callable[[bytes], tuple[int, str] | None] = lambda _: None
) -> dict[str, Any]:
    """A record of a partition."""
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": content_view(record.key, decode),
        "value": content_view(record.value, decode),
        "headers": [
            {"name": name[:HEADER_NAME_CHARACTERS_MAX], "content": content_view(content)}
            for name, content in record.headers[:HEADERS_SHOWN_MAX]
        ],
        "headers_count": len(record.headers),
    }
