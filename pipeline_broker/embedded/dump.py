"""A bounded report about an embedded broker, as text for a failed test or as a self-contained HTML page.

The report has the latest requests in order of arrival, and the groups and topics that they name. It also has the topics
that the test used, with their latest records.
"""

from __future__ import annotations

import datetime as dt
import html
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.partial_reads import FoundGroup, overview, read_batches
from pipeline_broker.embedded.shown import Record, decoded
from pipeline_broker.log.errors import DamagedIndexError, LogError
from pipeline_broker.traces.spans import wall_clock_offset_ns

if TYPE_CHECKING:
    from pipeline_broker.embedded.core import Core
    from pipeline_broker.embedded.embedded_broker import EmbeddedBroker
    from pipeline_broker.faults.rule import Rule
    from pipeline_broker.telemetry.recent_requests import AnsweredRequest, RequestNames

__all__ = ["Seen", "as_html", "as_text", "is_used", "report", "seen"]

TEXT_REQUESTS_MAX = 20
# Limits of records are per topic. Of topics, those that were used last are shown.
TEXT_RECORDS_MAX = 5
HTML_REQUESTS_MAX = 1_000
HTML_RECORDS_MAX = 500
TEXT_TOPICS_MAX = 10
HTML_TOPICS_MAX = 50
GROUPS_MAX = 50
CONTENT_CHARACTERS_MAX = 80
NAMES_CHARACTERS_MAX = 80
WHOLE_TOPIC = -1

STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color: #222; }
table { border-collapse: collapse; margin: 0 0 2em; }
th, td { text-align: left; padding: 2px 10px; border-bottom: 1px solid #ddd; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
code { white-space: pre-wrap; overflow-wrap: anywhere; }
"""

Row = Sequence[str | int | float]
REQUEST_COLUMNS = ("time", "connection", "client", "request", "about", "outcome", "queue ms", "commit ms", "total ms")
RULE_COLUMNS = ("fault rule", "matched", "struck")
GROUP_COLUMNS = ("group", "type", "state", "member", "client", "assignment", "lag")
RECORD_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


@attrs.frozen(kw_only=True)
class Seen:
    """The content of a report.

    Attributes:
        heading: the broker, the time of the report, how far the clock was advanced, and the stopped brokers.
        requests: in order of arrival.
        topics: named by the requests or used by the program, the newest last.
        groups: named by the requests.
        rules: the fault rules, including removed ones.
    """

    heading: str
    requests: Sequence[AnsweredRequest]
    topics: Sequence[str]
    groups: Sequence[FoundGroup]
    rules: Sequence[Rule]


def seen(broker: EmbeddedBroker, rules: Sequence[Rule] = (), since_ns: int = 0) -> Seen:
    """Collect a report from a broker, which may have ended.

    Args:
        rules: the fault rules to list.
        since_ns: omit requests that were answered before this time of `time.monotonic_ns`.
    """
    every, topics_asked = broker.look(_used)
    recent = [it for it in every if max(it.completed_ns, it.received_ns) >= since_ns]
    requests = sorted(recent, key=lambda request: request.received_ns)
    named = [request.names for request in requests[-HTML_REQUESTS_MAX:]]
    there = broker.look(partial(overview, group_ids={group for names in named for group in names.groups}))
    # Clients of earlier tests still ask for the metadata of their topics, without a partition.
    places = [place for names in named for place in names.partitions]
    topics = dict.fromkeys(topic for topic, partition in places if topic in there.topics and partition != WHOLE_TOPIC)
    for topic in topics_asked:
        topics.pop(topic, None)
        if topic in there.topics:
            topics[topic] = None
    clock = f", its clock {_days(there.ahead_ms / 1000)} ahead" if there.ahead_ms else ""
    state = ", as it was when it ended" if broker.has_ended else ""
    stopped = f"; stopped brokers: {', '.join(map(str, there.stopped))}" if there.stopped else ""
    problem = f"; topics and groups are not shown: {there.problem}" if there.problem else ""
    return Seen(
        heading=f"{broker!r} at {_iso(time.time_ns() // 1_000_000)}{clock}{state}{stopped}{problem}",
        requests=requests,
        topics=list(topics),
        groups=there.groups[:GROUPS_MAX],
        rules=rules,
    )


def is_used(broker: EmbeddedBroker) -> bool:
    try:
        return any(broker.look(_used))
    except EmbeddedBrokerError:  # the broker of another process
        return False


async def _used(core: Core) -> tuple[list[AnsweredRequest], list[str]]:
    return core.requests(), list(core.topics_asked)


def report(broker: EmbeddedBroker, rules: Sequence[Rule], since_ns: int, page: Path | None, title: str) -> str:
    """Return the report as text, and write it as HTML to `page`, unless that is None.

    A report that cannot be made must not hide the failure of the test, so its error is returned as text.

    Args:
        rules, since_ns: as for `seen`.
        title: the title of the page.
    """
    try:
        found = seen(broker, rules, since_ns)
        text = as_text(broker, found)
        if page is not None:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(as_html(broker, found, title), encoding="utf-8")
            text += f"\nthe complete page: {page}"
    except (EmbeddedBrokerError, LogError, DamagedIndexError, OSError) as error:
        return f"the state of the broker cannot be shown: {error}"
    return text


def as_text(broker: EmbeddedBroker, seen: Seen) -> str:
    """Return the last requests, fault rules, groups, and the last records of the last topics, as lines of text."""
    requests = seen.requests[-TEXT_REQUESTS_MAX:]
    lines = [seen.heading, f"requests, the last {len(requests)} of {len(seen.requests)}:"]
    lines += _lines(REQUEST_COLUMNS, _request_rows(requests))
    if seen.rules:
        lines += ["fault rules:", *_lines(RULE_COLUMNS, _rule_rows(seen.rules))]
    lines += ["groups:", *_lines(GROUP_COLUMNS, _group_rows(seen.groups))]
    lines += [f"records, the last {TEXT_RECORDS_MAX} of each topic:"]
    lines += _lines(RECORD_COLUMNS, _record_rows(broker, seen.topics[-TEXT_TOPICS_MAX:], TEXT_RECORDS_MAX))
    return "\n".join(lines)


def as_html(broker: EmbeddedBroker, seen: Seen, title: str) -> str:
    """Return the report as an HTML page, with more requests, topics and records than `as_text`."""
    tables = (
        ("Records", RECORD_COLUMNS, _record_rows(broker, seen.topics[-HTML_TOPICS_MAX:], HTML_RECORDS_MAX)),
        ("Groups", GROUP_COLUMNS, _group_rows(seen.groups)),
        ("Fault rules", RULE_COLUMNS, _rule_rows(seen.rules)),
        ("Requests", REQUEST_COLUMNS, _request_rows(seen.requests[-HTML_REQUESTS_MAX:])),
    )
    body = "".join(f"<h2>{name}</h2>{_table(columns, rows)}" for name, columns, rows in tables)
    heading = html.escape(title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
        f"<style>{STYLE}</style></head><body><h1>{heading}</h1><p>{html.escape(seen.heading)}</p>{body}</body></html>\n"
    )


def _request_rows(requests: Sequence[AnsweredRequest]) -> Iterable[Row]:
    epoch_ns = wall_clock_offset_ns()
    for each in requests:
        stages = each.stages
        errors = " ".join((each.outcome, *each.errors))
        yield (
            _iso((epoch_ns + each.received_ns) // 1_000_000)[11:23],
            each.connection,
            each.client_id,
            f"{each.api} v{each.version}",
            _about(each.names),
            errors,
            _ms(stages.request_queue_ns),
            _ms(stages.commit_wait_ns),
            _ms(stages.total_ns),
        )


def _about(names: RequestNames) -> str:
    numbers: dict[str, list[int]] = {}
    for topic, partition in names.partitions:
        numbers.setdefault(topic, []).extend([] if partition == WHOLE_TOPIC else [partition])
    topics = [_assigned(topic, found) for topic, found in numbers.items()]
    return _cut(" ".join([*(f"group {group}" for group in names.groups), *topics]), NAMES_CHARACTERS_MAX)


def _assigned(topic: str, partitions: Sequence[int]) -> str:
    return f"{topic}[{','.join(map(str, partitions))}]" if partitions else topic


def _cut(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else f"{text[:characters_max]}..."


def _rule_rows(rules: Sequence[Rule]) -> Iterable[Row]:
    for rule in rules:
        yield str(rule), rule.matched, rule.hits


def _group_rows(groups: Sequence[FoundGroup]) -> Iterable[Row]:
    for group_id, group, known, problem in groups:
        lag = "-" if known is None else known
        if group is None:
            yield group_id, "-", problem, "", "", "", lag
            continue
        head = group_id, group.group_type, group.state
        if not group.members:
            yield (*head, "", "", "", lag)
        for member in group.members:
            assignment = " ".join(_assigned(*found) for found in sorted(member.assignment.items()))
            yield (*head, member.member_id, member.client_id, assignment, lag)


def _record_rows(broker: EmbeddedBroker, topics: Sequence[str], records_max: int) -> Iterable[Row]:
    for topic in topics:
        batches, problems = broker.look(partial(read_batches, topic=topic))
        for record in list(decoded(topic, batches))[-records_max:]:
            yield _record_row(record)
        for partition, problem in problems[:records_max]:
            yield topic, partition, "-", "-", "-", problem, ""


def _record_row(record: Record) -> Row:
    headers = " ".join(f"{name}={_shown(content)}" for name, content in record.headers)
    place = (record.topic, record.partition, record.offset, _iso(record.timestamp))
    return (*place, _shown(record.key), _shown(record.value), headers)


def _shown(content: bytes | None) -> str:
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


def _iso(timestamp_ms: int) -> str:
    try:
        moment = dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        # Records can have timestamps beyond the calendar of datetime.
        return str(timestamp_ms)
    return moment.isoformat(sep=" ", timespec="milliseconds")


def _days(seconds: float) -> str:
    return str(dt.timedelta(seconds=seconds))


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 2)


def _lines(columns: Sequence[str], rows: Iterable[Row]) -> list[str]:
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
