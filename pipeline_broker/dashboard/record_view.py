"""One record as a page may show it: texts of bounded length, and what they are.

Rules of this file: sans-IO. A key, value or header is text where it is valid UTF-8, else hexadecimal; of either only
the beginning is shown, with the size of the whole. A text may say anything: the page shows it as text, isolated from
the direction of what stands around it.
"""

from __future__ import annotations

from typing import Any

from pipeline_broker.records.record import Record

__all__ = ["BYTES_SHOWN_MAX", "HEADERS_SHOWN_MAX", "content_view", "record_view"]

BYTES_SHOWN_MAX = 2048
"""Of one key, value or header."""
HEADERS_SHOWN_MAX = 16
HEX_BYTES_SHOWN_MAX = 256
HEADER_NAME_CHARACTERS_MAX = 256


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


def record_view(partition: int, record: Record) -> dict[str, Any]:
    """A record of a partition."""
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": content_view(record.key),
        "value": content_view(record.value),
        "headers": [
            {"name": name[:HEADER_NAME_CHARACTERS_MAX], "content": content_view(content)}
            for name, content in record.headers[:HEADERS_SHOWN_MAX]
        ],
        "headers_count": len(record.headers),
    }
