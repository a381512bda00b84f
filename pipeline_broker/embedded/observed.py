"""The requests that an embedded broker has answered."""

from __future__ import annotations

from pathlib import Path

from pipeline_broker.embedded.core import Core
from pipeline_broker.embedded.lifecycle import Lifecycle
from pipeline_broker.faults.names import api_keys
from pipeline_broker.telemetry.recent_requests import AnsweredRequest
from pipeline_broker.traces.spans import TracedSpan, wall_clock_offset_ns, write_spans

__all__ = ["ObservedBroker", "of_api"]

__tracebackhide__ = True  # pytest shows the caller's line instead of this module


class ObservedBroker(Lifecycle):
    def requests(self, api: str | None = None) -> list[AnsweredRequest]:
        """Return the latest requests of clients with the times of their stages, oldest first.

        Args:
            api: return only requests of this API, by Kafka's name, such as "Produce".

        Raises:
            FaultError: the API name is unknown.
        """
        return of_api(api, self._on_core(Core.requests))

    def write_spans(self, path: Path | str, api: str | None = None) -> int:
        """Write `requests` as OpenTelemetry spans (OTLP in JSON) and return their number.

        Jaeger, Tempo and Grafana show a request as a trace: its queue, handler, commit and response.

        Args:
            api: write only requests of this API.

        Raises:
            FaultError: the API name is unknown.
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
        """Return the topics that this process created, wrote or read during the island, the newest last.

        Topics of clients are not included.
        """
        return self._on_core(lambda core: list(core.topics_asked))


def of_api(api: str | None, requests: list[AnsweredRequest]) -> list[AnsweredRequest]:
    name = api and api_keys(api)[0]
    return [request for request in requests if name in (None, request.api)]
