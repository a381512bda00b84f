r"""Output formats of records: a kcat-like format string, or JSON.

%s value   %k key   %t topic   %p partition   %o offset   %T timestamp in ms   %h headers as a=1,b=2
%S bytes of the value and %K of the key, -1 if null   %% a percent sign   \n \t \r \0 \\ \xNN
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from pipeline_broker.client.record_json import record_object
from pipeline_broker.client.record_lines import unescape
from pipeline_broker.client.topology import TopicPartition
from pipeline_broker.records.record import Record

__all__ = ["Printer", "escape_for_terminal", "format_printer", "json_line"]

Printer = Callable[[TopicPartition, Record, bool], bytes]
"""Formats a record. The last argument is whether its timestamp is the broker's append time."""
Show = Callable[[bytes], bytes]
_FIELD = re.compile(r"%(.)", re.DOTALL)


def escape_for_terminal(data: bytes) -> bytes:
    """Escape control characters and bytes that are not UTF-8, so that a record cannot act on a terminal."""
    text = data.decode(errors="backslashreplace")
    if text.isprintable():
        return text.encode()
    return "".join(it if it.isprintable() or it in "\n\t" else ascii(it)[1:-1] for it in text).encode()


def json_line(partition: TopicPartition, record: Record, is_append_time: bool) -> bytes:
    shown = record_object(*partition, record, is_append_time=is_append_time)
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def format_printer(text: str, null: bytes = b"", show: Show = bytes) -> Printer:
    """Return a printer for a format string.

    Args:
        null: printed for a null key, value or header value.
        show: applied to keys, values and headers, such as `escape_for_terminal`.

    Raises:
        ValueError: a field or an escape is unknown.
    """
    fields = _fields(null, show)
    parts: list[bytes | Callable[[TopicPartition, Record], bytes]] = []
    position = 0
    for match in _FIELD.finditer(text):
        parts.append(unescape(text[position : match.start()]))
        position = match.end()
        if match[1] == "%":
            parts.append(b"%")
        elif match[1] in fields:
            parts.append(fields[match[1]])
        else:
            raise ValueError(f"unknown field %{match[1]}. Use one of {', '.join('%' + name for name in fields)}, %%")
    if text.endswith("%") and position < len(text):
        raise ValueError("the format ends with a single %. Write %% for a percent sign")
    parts.append(unescape(text[position:]))

    def print_record(partition: TopicPartition, record: Record, is_append_time: bool) -> bytes:  # noqa: ARG001 - Printer
        return b"".join(part if isinstance(part, bytes) else part(partition, record) for part in parts)

    return print_record


def _fields(null: bytes, show: Show) -> dict[str, Callable[[TopicPartition, Record], bytes]]:
    def content(data: bytes | None) -> bytes:
        return null if data is None else show(data)

    def headers(record: Record) -> bytes:
        return b",".join(
            show(name.encode(errors="surrogateescape")) + b"=" + content(value) for name, value in record.headers
        )

    return {
        "s": lambda _, record: content(record.value),
        "k": lambda _, record: content(record.key),
        "t": lambda partition, _: partition[0].encode(),
        "p": lambda partition, _: b"%d" % partition[1],
        "o": lambda _, record: b"%d" % record.offset,
        "T": lambda _, record: b"%d" % record.timestamp,
        "S": lambda _, record: b"%d" % (-1 if record.value is None else len(record.value)),
        "K": lambda _, record: b"%d" % (-1 if record.key is None else len(record.key)),
        "h": lambda _, record: headers(record),
    }
