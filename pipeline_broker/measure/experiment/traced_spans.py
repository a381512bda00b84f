"""The spans of an experiment: the first measured requests of each traced run, as seen by broker and client.

Broker and client number connections independently. Two connections belong together if, for every request, the broker's
timestamps lie within the client's: a request cannot arrive before it was sent.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline_broker.traces.broker_tables import TracedRequest
from pipeline_broker.traces.client_rows import ClientRow, read_client
from pipeline_broker.traces.ring_file import read
from pipeline_broker.traces.spans import TracedSpan
from pipeline_broker.wire.registry import ApiKey
from stages.timeline import NO_STAMP

REQUESTS_OF_RUN_MAX = 200
"""Limit of spans per run; viewers cannot open files with many more."""


def spans_of_experiment(raw: Path) -> Iterator[TracedSpan]:
    """Yield the first measured Produce requests of each traced run, at most REQUESTS_OF_RUN_MAX.

    Args:
        raw: the raw folder of an experiment. Incomplete runs are skipped.
    """
    for folder in sorted(raw.glob("run-*")):
        described = folder / "run.json"
        if described.exists():
            run = json.loads(described.read_text(encoding="utf-8"))
            if run["traced"]:
                yield from _spans_of_run(folder, run)


def _spans_of_run(folder: Path, run: dict[str, Any]) -> Iterator[TracedSpan]:
    file = read(folder / "requests.ring")
    columns = [name for name, _ in file.table.columns]
    requests = [
        TracedRequest(tuple(NO_STAMP if value is None else value for value in row)) for row in file.rows(*columns)
    ]
    produced = sorted((it for it in requests if it.api == ApiKey.PRODUCE), key=lambda request: request.received_ns)
    by_connection = _matched(produced, read_client(folder / "client-0.ring"))
    load = {"pipeline.mode": run["mode"], "pipeline.run": run["run"], "pipeline.client": run["client"]}
    pairs = [(request, by_connection.get(request.connection, {}).get(request.correlation_id)) for request in produced]
    measured = itertools.dropwhile(lambda pair: pair[1] is not None and not pair[1].measured, pairs)
    for request, client in itertools.islice(measured, REQUESTS_OF_RUN_MAX):
        yield TracedSpan("Produce", request, request.connection, request.sequence, load, client)


def _matched(requests: Sequence[TracedRequest], rows: Sequence[ClientRow]) -> dict[int, dict[int, ClientRow]]:
    of_client: dict[int, dict[int, ClientRow]] = {}
    for row in rows:
        if row.correlation_id is not None and row.answered_ns is not None:
            of_client.setdefault(row.connection, {})[row.correlation_id] = row
    of_broker: dict[int, list[TracedRequest]] = {}
    for request in requests:
        of_broker.setdefault(request.connection, []).append(request)
    fitting = {
        connection: {name for name, known in of_client.items() if _fits(sent, known)}
        for connection, sent in of_broker.items()
    }
    found: dict[int, dict[int, ClientRow]] = {}
    # A connection with a single candidate takes it, which may leave another connection with a single candidate.
    while sure := {connection: names for connection, names in fitting.items() if len(names) == 1}:
        for connection, (name,) in sure.items():
            found[connection] = of_client[name]
            fitting = {it: names - {name} for it, names in fitting.items() if it != connection}
    return found


def _fits(requests: Sequence[TracedRequest], rows: dict[int, ClientRow]) -> bool:
    both = [(request, rows.get(request.correlation_id)) for request in requests if request.sent_ns]
    return bool(both) and all(
        row is not None and row.sent_ns <= request.received_ns and request.send_started_ns <= (row.answered_ns or 0)
        for request, row in both
    )
