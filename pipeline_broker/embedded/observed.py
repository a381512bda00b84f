"""The requests that an embedded broker has seen, without a client.

The methods may be called from any thread, as those of `EmbeddedBroker`.
"""

from __future__ import annotations

from pathlib import Path

from pipeline_broker.embedded.lifecycle import Lifecycle
from pipeline_broker.faults.names import api_keys
from pipeline_broker.telemetry.recent_requests import AnsweredRequest
from pipeline_broker.traces.spans import TracedSpan, wall_clock_offset_ns, write_spans

__all__ = ["ObservedBroker"]

__tracebackhide__ = True  # see lifecycle.py


class ObservedBroker(Lifecycle):
    """A broker and the requests that it has seen."""

    def requests(self, api: str | None = None) -> list[AnsweredRequest]:
        """Return the last requests of clients with their stamps, oldest first.

        Args:
            api: only those of this API, by Kafka's name.

        Raises:
            FaultError: Kafka has no API of this name.
        """
        core, name = self._of_core, api and api_keys(api)[0]
        found = self.on_loop(lambda _: list(core.requests))
        return [request for request in found if name in (None, request.api)]

    def write_spans(self, path: Path | str, api: str | None = None) -> int:
        """Write `requests` as spans of OpenTelemetry (OTLP in JSON) and return how many there are.

        Jaeger, Tempo and Grafana show a request as a trace: its queue, handler, commit and response.

        Raises:
            FaultError: Kafka has no API of this name.
            OSError: the file cannot be written.
        """
        requests = [
            TracedSpan(
                request.api,
                request,
                request.connection,
                request.sequence,
                {"kafka.client_id": request.client_id, "kafka.outcome": request.outcome},
            )
            for request in self.requests(api)
        ]
        return write_spans(Path(path), requests, wall_clock_offset_ns())

    def topics_asked(self) -> list[str]:
        """Return the topics that this process created, wrote or read in the island without clients, the newest last."""
        core = self._of_core
        return self.on_loop(lambda _: list(core.topics_asked))
