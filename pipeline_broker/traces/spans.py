"""Requests as OpenTelemetry spans in OTLP JSON (opentelemetry-proto 1.x, TracesData), for Jaeger, Tempo and Grafana.

Each request is one trace. The client's span, if known, contains the broker's span. The broker's span contains the
spans of the queue, the handler, the commit and the response. As OTLP JSON requires, ids are hexadecimal and 64-bit
numbers are strings.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import attrs

from pipeline_broker.traces.client_rows import ClientRow
from stages.timeline import Stamps

__all__ = ["TracedSpan", "wall_clock_offset_ns", "write_spans"]

BROKER, CLIENT = "pipeline-broker", "pipeline-broker client"
"""Service names."""
_INTERNAL, _SERVER, _CLIENT = 1, 2, 3  # of SpanKind
Attribute = str | int


class Stage(NamedTuple):
    """A span inside the broker's span, with the names of its first and last stamp."""

    name: str
    began: str
    ended: str


STAGES = (
    Stage("queue", "received_ns", "dequeued_ns"),
    Stage("handler", "dequeued_ns", "decided_ns"),
    Stage("commit", "submitted_ns", "durable_ns"),
    Stage("response", "completed_ns", "sent_ns"),
)


@attrs.frozen
class TracedSpan:
    """A request to export.

    Attributes:
        api: Kafka's name of the API.
        stamps: the stages in the broker.
        connection, sequence: identify the request within its broker.
        attributes: more attributes of the broker's span, by name.
        client: the client's row of this request, if known.
    """

    api: str
    stamps: Stamps
    connection: int
    sequence: int
    attributes: Mapping[str, Attribute] = attrs.field(factory=dict)
    client: ClientRow | None = None


def wall_clock_offset_ns() -> int:
    """Return the offset from this machine's monotonic clock to nanoseconds since 1970.

    Stamps are monotonic and OTLP counts from 1970. One offset for all spans of a file keeps their distances exact.
    """
    return time.time_ns() - time.monotonic_ns()


def write_spans(path: Path, requests: Iterable[TracedSpan], offset_ns: int) -> int:
    """Write the requests that have passed all stages as one OTLP file.

    Args:
        path: the file; it is overwritten.
        requests: all requests; those without some stamp are skipped.
        offset_ns: from `wall_clock_offset_ns`.

    Returns:
        the number of requests written.

    Raises:
        OSError: the file cannot be written.
    """
    whole = [request for request in requests if _is_whole(request.stamps)]
    clients = [span for request in whole for span in _client_span(request, offset_ns)]
    brokers = [span for request in whole for span in _broker_spans(request, offset_ns)]
    services = [_service(name, spans) for name, spans in ((CLIENT, clients), (BROKER, brokers)) if spans]
    path.write_text(json.dumps({"resourceSpans": services}, separators=(",", ":")) + "\n", encoding="utf-8")
    return len(whole)


def _is_whole(stamps: Stamps) -> bool:
    return all(getattr(stamps, stamp) > 0 for stamp in ("received_ns", "dequeued_ns", "completed_ns", "sent_ns"))


def _service(name: str, spans: list[dict[str, Any]]) -> dict[str, Any]:
    scope = {"name": "pipeline_broker.traces"}
    resource = {"attributes": _attributes({"service.name": name})}
    return {"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}


def _client_span(request: TracedSpan, offset_ns: int) -> Iterator[dict[str, Any]]:
    row = request.client
    if row is not None and row.answered_ns is not None:
        began_ns = row.sent_ns if row.intended_ns is None else row.intended_ns
        yield _span(request, "client", _CLIENT, began_ns, row.answered_ns, offset_ns)


def _broker_spans(request: TracedSpan, offset_ns: int) -> Iterator[dict[str, Any]]:
    stamps = request.stamps
    parent = "" if request.client is None else "client"
    more = {"kafka.connection": request.connection, "kafka.sequence": request.sequence, **request.attributes}
    yield _span(request, "broker", _SERVER, stamps.received_ns, stamps.sent_ns, offset_ns, parent, more)
    for stage in STAGES:
        began_ns, ended_ns = getattr(stamps, stage.began), getattr(stamps, stage.ended)
        if began_ns > 0 and ended_ns > 0:  # a request without entries has no commit
            yield _span(request, stage.name, _INTERNAL, began_ns, ended_ns, offset_ns, "broker")


def _span(
    request: TracedSpan,
    name: str,
    kind: int,
    began_ns: int,
    ended_ns: int,
    offset_ns: int,
    parent: str = "",
    attributes: Mapping[str, Attribute] | None = None,
) -> dict[str, Any]:
    is_outer = name in ("client", "broker")
    return {
        "traceId": _identifier(request, "", 16),
        "spanId": _identifier(request, name, 8),
        **({"parentSpanId": _identifier(request, parent, 8)} if parent else {}),
        "name": f"{request.api} {name}" if is_outer else name,
        "kind": kind,
        "startTimeUnixNano": str(began_ns + offset_ns),
        # A span must not end before it starts.
        "endTimeUnixNano": str(max(began_ns, ended_ns) + offset_ns),
        "attributes": _attributes({"messaging.system": "kafka", **(attributes or {})}) if is_outer else [],
    }


def _identifier(request: TracedSpan, part: str, size: int) -> str:
    """Return a hexadecimal id that is stable: exporting the same run again gives the same ids."""
    key = (request.connection, request.sequence, request.stamps.received_ns, *request.attributes.items(), part)
    return hashlib.blake2b(repr(key).encode(), digest_size=size).hexdigest()


def _attributes(values: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    return [
        {"key": name, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for name, value in values.items()
    ]
