"""What an embedded broker saw, for people: as text under a failed test, and as a page of HTML.

Rules of this file: it asks the broker like anybody else. Everything is bounded: the newest requests and the newest
records of each partition, values up to a length; a page loads nothing from anywhere.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pipeline_broker.embedded.shown import Group, Record
from pipeline_broker.lag import total_lag

if TYPE_CHECKING:
    from pipeline_broker.embedded.embedded_broker import EmbeddedBroker
    from pipeline_broker.telemetry.recent_requests import AnsweredRequest

__all__ = ["as_html", "as_text"]

TEXT_REQUESTS_MAX = 20
TEXT_RECORDS_MAX = 5
"""Of each topic."""
HTML_REQUESTS_MAX = 1_000
HTML_RECORDS_MAX = 500
TEXT_TOPICS_MAX = 10
HTML_TOPICS_MAX = 50
"""Those that were created last: a test looks for its own."""
GROUPS_MAX = 50
CONTENT_CHARACTERS_MAX = 80

STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color: #222; }
table { border-collapse: collapse; margin: 0 0 2em; }
th, td { text-align: left; padding: 2px 10px; border-bottom: 1px solid #ddd; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
code { white-space: pre-wrap; overflow-wrap: anywhere; }
"""

Row = Sequence[str | int | float]
REQUEST_COLUMNS = ("ms", "connection", "client", "request", "outcome", "queue ms", "commit ms", "total ms")
GROUP_COLUMNS = ("group", "type", "state", "member", "client", "assignment", "lag")
RECORD_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def as_text(broker: EmbeddedBroker) -> str:
    """The last requests, the groups and the last records, in lines."""
    requests = broker.requests()[-TEXT_REQUESTS_MAX:]
    lines = [f"{broker!r}", f"last {len(requests)} requests:"]
    lines += _lines(REQUEST_COLUMNS, _request_rows(requests))
    lines += ["groups:", *_lines(GROUP_COLUMNS, _group_rows(broker))]
    lines += [f"last {TEXT_RECORDS_MAX} records of each of the newest topics:"]
    lines += _lines(RECORD_COLUMNS, _record_rows(broker, TEXT_TOPICS_MAX, TEXT_RECORDS_MAX))
    return "\n".join(lines)


def as_html(broker: EmbeddedBroker, title: str) -> str:
    """The same with more of each, as a page."""
    requests = broker.requests()[-HTML_REQUESTS_MAX:]
    tables = (
        ("Records", RECORD_COLUMNS, _record_rows(broker, HTML_TOPICS_MAX, HTML_RECORDS_MAX)),
        ("Groups", GROUP_COLUMNS, _group_rows(broker)),
        ("Requests", REQUEST_COLUMNS, _request_rows(requests)),
    )
    body = "".join(f"<h2>{name}</h2>{_table(columns, rows)}" for name, columns, rows in tables)
    heading = html.escape(title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
        f"<style>{STYLE}</style></head><body><h1>{heading}</h1><p>{html.escape(repr(broker))}</p>{body}</body></html>\n"
    )


def _request_rows(requests: Sequence[AnsweredRequest]) -> Iterable[Row]:
    began_ns = requests[0].received_ns if requests else 0
    for each in requests:
        stages = each.stages
        errors = " ".join((each.outcome, *each.errors))
        yield (
            _ms(each.received_ns - began_ns),
            each.connection,
            each.client_id,
            f"{each.api} v{each.version}",
            errors,
            _ms(stages.request_queue_ns),
            _ms(stages.commit_wait_ns),
            _ms(stages.total_ns),
        )


def _group_rows(broker: EmbeddedBroker) -> Iterable[Row]:
    for group in broker.groups()[:GROUPS_MAX]:
        known = total_lag(broker.lag(group.group_id).values())
        lag = "-" if known is None else known
        if not group.members:
            yield group.group_id, group.group_type, group.state, "", "", "", lag
        for member in group.members:
            assignment = " ".join(
                f"{topic}[{','.join(map(str, partitions))}]" for topic, partitions in sorted(member.assignment.items())
            )
            yield (*_head(group), member.member_id, member.client_id, assignment, lag)


def _head(group: Group) -> tuple[str, str, str]:
    return group.group_id, group.group_type, group.state


def _record_rows(broker: EmbeddedBroker, topics_max: int, records_max: int) -> Iterable[Row]:
    for topic in list(broker.topics())[-topics_max:]:
        for record in broker.records(topic, committed=False)[-records_max:]:
            yield _record_row(record)


def _record_row(record: Record) -> Row:
    headers = " ".join(f"{name}={_shown(content)}" for name, content in record.headers)
    place = (record.topic, record.partition, record.offset, record.timestamp)
    return (*place, _shown(record.key), _shown(record.value), headers)


def _shown(content: bytes | None) -> str:
    """Bytes as text where they are some, and not too many of them."""
    if content is None:
        return "null"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = repr(content)
    text = text if text.isprintable() else repr(text)
    if len(text) > CONTENT_CHARACTERS_MAX:
        return f"{text[:CONTENT_CHARACTERS_MAX]}... ({len(content)} bytes)"
    return text


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 2)


def _lines(columns: Sequence[str], rows: Iterable[Row]) -> list[str]:
    """A table in lines of text; one word where it is empty."""
    cells = [[str(cell) for cell in row] for row in rows]
    if not cells:
        return ["  none"]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    return [
        ("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))).rstrip()
        for line in (columns, *cells)
    ]


def _table(columns: Sequence[str], rows: Iterable[Row]) -> str:
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>" if body else "<p>none</p>"


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return f"<td><code>{html.escape(value)}</code></td>"
    return f'<td class="number">{value}</td>'
