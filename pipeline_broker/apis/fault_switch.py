"""The switch between a plain dispatcher and one with fault rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline_broker.apis.dispatch import Dispatcher
    from pipeline_broker.apis.faulty_requests import FaultyRequests
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.faults.faults import Faults

__all__ = ["FaultSwitch"]


class FaultSwitch:
    """The application of a broker's server; see `stages.request_handler.Application`.

    A broker without fault rules pays nothing for them: `handle` is the dispatcher's own method until rules are in use.
    """

    def __init__(self, dispatcher: Dispatcher, broker: Broker) -> None:
        self.handle = dispatcher.handle
        self.failed = dispatcher.failed
        self._dispatcher = dispatcher
        self._broker = broker
        self._faulty: FaultyRequests | None = None
        if broker.has_faults:
            self.follow(broker.faults)

    def follow(self, faults: Faults) -> None:
        if self._faulty is None:
            from pipeline_broker.apis.faulty_requests import FaultyRequests  # noqa: PLC0415 - most brokers have no rules

            self._faulty = FaultyRequests(self._dispatcher, self._broker, faults)
        # Without rules about requests, requests that earlier rules paused must still resume.
        self.handle = self._faulty.handle if faults.judges_requests else self._faulty.handle_unjudged

    def connection_closed(self, session: object) -> None:
        if self._broker.has_faults:
            self._broker.faults.held.connection_closed(session)
        self._dispatcher.connection_closed(session)
