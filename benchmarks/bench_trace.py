"""Measure the cost of observing a request on the event loop: microseconds per row, drained as in a broker.

python -m benchmarks.bench_trace
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pipeline_broker.telemetry.fan_out import FanOut
from pipeline_broker.telemetry.request_metrics import RequestMetrics
from pipeline_broker.telemetry.timeline_records import TimelineBatches, TimelineRows
from pipeline_broker.telemetry.trace_files import TraceFiles
from stages.mode import PIPELINED
from stages.request import Request, Send
from stages.timeline import Timeline, now_ns

ROWS_PER_TURN = 256
TURNS = 60
PAUSE_SECONDS = 0.005
ROUNDS = 5
ENCODED_ROWS = 16_384


class Origin:
    """The only attribute of a connection that observers read."""

    index = 3


def answered_request(sequence: int) -> Request:
    frame = b"\0\0\0\x09\0\0\0\x01\0\x05bench" + bytes(150)
    request = Request(Origin(), sequence, frame, now_ns())  # type: ignore[arg-type]  # less than a handle
    request.api, request.version, request.queue, request.acks, request.commit = 0, 9, 2, -1, 7
    request.enqueued_ns = request.dequeued_ns = request.handled_ns = request.decided_ns = now_ns()
    request.submitted_ns = request.durable_ns = request.completed_ns = request.released_ns = now_ns()
    request.send_started_ns = request.sent_ns = now_ns()
    request.result = Send(b"")
    return request


def microseconds_per_row(timeline: Timeline, drain: Callable[[], object] = lambda: None) -> float:
    requests = [answered_request(sequence) for sequence in range(ROWS_PER_TURN)]
    best = float("inf")
    for _ in range(ROUNDS):
        spent = 0
        for _ in range(TURNS):
            began = time.perf_counter_ns()
            for request in requests:
                timeline.request_ended(request)
            spent += time.perf_counter_ns() - began
            time.sleep(PAUSE_SECONDS)
            drain()
        best = min(best, spent / (TURNS * ROWS_PER_TURN) / 1e3)
    return best


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        files = TraceFiles(Path(directory), {})
        print(f"trace row             {microseconds_per_row(files):.2f} us")
        metrics = RequestMetrics({0: "Produce"}, PIPELINED)
        print(f"metrics row           {microseconds_per_row(metrics):.2f} us, most of them sampled out")
        both = FanOut((files, metrics))
        print(f"trace and metrics row {microseconds_per_row(both):.2f} us")
        files.close()
        print(f"rows lost: {files.lost}")
    rows = TimelineRows(lambda: None)
    print(f"timeline row          {microseconds_per_row(rows, rows.ring.take):.2f} us")
    for request in [answered_request(sequence) for sequence in range(ENCODED_ROWS)]:
        rows.request_ended(request)
    packed = rows.ring.take()
    began = time.perf_counter_ns()
    batches = TimelineBatches("bench", "pipelined", 0).encode(packed, 0, 1)
    spent_us = (time.perf_counter_ns() - began) / 1e3
    stored = sum(map(len, batches)) / ENCODED_ROWS
    print(f"timeline encoded      {spent_us / ENCODED_ROWS:.2f} us and {stored:.0f} bytes per row, in a thread")
    drained = RequestMetrics({0: "Produce"}, PIPELINED)
    requests = [answered_request(sequence) for sequence in range(ROWS_PER_TURN)]
    for request in requests:
        drained.request_ended(request)
    began = time.perf_counter_ns()
    drained.drain(now_ns())
    print(
        f"metrics drain         {(time.perf_counter_ns() - began) / len(requests) / 1e3:.2f} us per row, off the path"
    )


if __name__ == "__main__":
    main()
