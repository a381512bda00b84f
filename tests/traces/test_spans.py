"""Spans are valid OTLP: the official messages read them, and the stages of a request lie within it."""

import base64
import json
import time

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

from pipeline_broker.traces.client_rows import ClientRow
from pipeline_broker.traces.spans import BROKER, CLIENT, TracedSpan, wall_clock_offset_ns, write_spans
from stages.timeline import NO_STAMP, STAMPS, Stamps

OFFSET_NS = 1_700_000_000_000_000_000


def stamped(began_ns, gaps_ns, *, has_commit=True):
    """Return stamps with these distances, in their order."""
    stamps, at_ns = Stamps(), began_ns
    for name, gap_ns in zip(STAMPS, gaps_ns, strict=True):
        at_ns += gap_ns
        setattr(stamps, name, at_ns)
    if not has_commit:
        stamps.submitted_ns = stamps.durable_ns = NO_STAMP
    return stamps


def official(path):
    """Parse a file with the official messages; ids are hexadecimal in OTLP, and base64 in protobuf's JSON."""
    document = json.loads(path.read_text())
    for service in document["resourceSpans"]:
        for scope in service["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return ParseDict(document, TracesData())


def by_service(found):
    return {
        service.resource.attributes[0].value.string_value: list(service.scope_spans[0].spans)
        for service in found.resource_spans
    }


requests = st.builds(
    lambda connection, sequence, began_ns, gaps, has_commit, has_client: TracedSpan(
        "Produce",
        stamped(began_ns, gaps, has_commit=has_commit),
        connection,
        sequence,
        {"pipeline.mode": "classic", "pipeline.run": 7},
        ClientRow(0, sequence, sequence, None, began_ns, began_ns + sum(gaps) + 1, 0, True) if has_client else None,
    ),
    st.integers(0, 99),
    st.integers(0, 1 << 40),
    st.integers(1, 1 << 50),
    st.lists(st.integers(0, 10**9), min_size=len(STAMPS), max_size=len(STAMPS)),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(requests, max_size=5, unique_by=lambda it: (it.connection, it.sequence)))
def test_the_official_messages_read_every_file(tmp_path_factory, drawn):
    path = tmp_path_factory.mktemp("spans") / "spans.json"
    assert write_spans(path, drawn, OFFSET_NS) == len(drawn)
    found = by_service(official(path))
    clients, brokers = found.get(CLIENT, []), found.get(BROKER, [])
    assert len(clients) == sum(it.client is not None for it in drawn)
    assert {(len(span.trace_id), len(span.span_id)) for span in (*clients, *brokers)} <= {(16, 8)}
    outer = [span for span in brokers if span.kind == Span.SPAN_KIND_SERVER]
    assert len({span.trace_id for span in outer}) == len(outer) == len(drawn)
    around = {span.span_id: span for span in (*clients, *outer)}
    for span in brokers:
        parent = around.get(span.parent_span_id)
        assert (parent is None) is (not span.parent_span_id)
        if parent is not None:
            assert parent.trace_id == span.trace_id
            assert parent.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= parent.end_time_unix_nano
    for request, span in zip(drawn, outer, strict=True):
        inner = {it.name for it in brokers if it.parent_span_id == span.span_id}
        assert inner - {"commit"} == {"queue", "handler", "response"}
        assert ("commit" in inner) is (request.stamps.durable_ns != NO_STAMP)
        assert span.start_time_unix_nano == request.stamps.received_ns + OFFSET_NS
        attributes = {it.key: it.value for it in span.attributes}
        assert attributes["pipeline.run"].int_value == 7
        assert attributes["pipeline.mode"].string_value == "classic"


def test_a_request_that_was_dropped_has_no_spans(tmp_path):
    dropped = stamped(1, [1] * len(STAMPS))
    dropped.sent_ns = 0
    assert write_spans(tmp_path / "spans.json", [TracedSpan("Produce", dropped, 0, 0)], 0) == 0
    assert not official(tmp_path / "spans.json").resource_spans


def test_the_offset_is_that_of_the_wall_clock():
    assert time.monotonic_ns() + wall_clock_offset_ns() == pytest.approx(time.time_ns(), abs=10**9)
