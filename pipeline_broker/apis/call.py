"""One request with what its handler needs to answer it.

Rules of this room: a call lives for one request; handlers read it and build results from it, they submit nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from pipeline_broker.apis.refusals import refusal
from pipeline_broker.apis.throttling import throttle
from pipeline_broker.security.principal import ANONYMOUS, KafkaPrincipal
from pipeline_broker.wire.codec import ResponseTooLargeError, encoder, stepwise_encoder
from pipeline_broker.wire.header import response_header
from stages.request import TURN_COST, Send

if TYPE_CHECKING:
    from collections.abc import Generator

    from pipeline_broker.apis.produce_template import ProduceTemplates
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.quotas.quotas import RequestQuota
    from pipeline_broker.state.features import Features
    from pipeline_broker.wire.error import ErrorCode
    from stages.request import Request

__all__ = ["Call", "Envelope", "Session"]

UNKNOWN_SOFTWARE: Final = "unknown"
REQUEST_COST_MAX: Final = 2_000_000
"""What one request may cost in all its turns, about microseconds; beyond it is refused with POLICY_VIOLATION."""


@attrs.define(eq=False)
class Session:
    """What is known of the client on one connection.

    Attributes:
        host: its address, as Kafka shows it in group descriptions.
        client_id: the beginning of the name that it gave with its last ApiVersions request; None before one.
        software_name, software_version: from a valid ApiVersions request; seen from the next request on.
        software_since: the sequence of that request.
        listener: name of the listener it came by.
        security_protocol: of that listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        principal: who it has proved to be.
        is_by_token: whether it has proved that by a delegation token.
        is_privileged: whether it came by the listener of the brokers themselves.
        is_trusted: whether it may do everything, as what an embedding program asks for; such a session has no client.
        is_told_of_text: whether it is logged that the client sends text that is not UTF-8.
        produce_templates: what its produce requests have in common; None before the first.
    """

    host: str
    listener: str
    client_id: str | None = None
    security_protocol: str = "PLAINTEXT"
    principal: KafkaPrincipal = ANONYMOUS
    is_by_token: bool = False
    is_privileged: bool = False
    is_trusted: bool = False
    is_told_of_text: bool = False
    software_name: str = UNKNOWN_SOFTWARE
    software_version: str = UNKNOWN_SOFTWARE
    software_since: int = -1
    produce_templates: ProduceTemplates | None = None


class Envelope:
    """What an answer needs to know of its request: all that there is before a client has proved who it is.

    Attributes:
        client_id: from the header; None when null.
    """

    __slots__ = ("_api_key", "_correlation_id", "client_id", "session", "version")

    def __init__(
        self, session: Session, api_key: int, version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.session = session
        self._api_key = api_key
        self.version = version
        self._correlation_id = correlation_id
        self.client_id = client_id

    @property
    def sequence(self) -> int:
        """The number of the request within its connection; -1 for what comes before all requests."""
        return -1

    @property
    def features(self) -> Features | None:
        """The features of the cluster; nobody is told of them before it has proved who it is."""
        return None

    @property
    def is_telemetry_wanted(self) -> bool:
        """Whether clients are told that they may push metrics."""
        return False

    def show(self, response: Any) -> None:
        """Let observers read a response; what is no request yet has none."""

    def send(self, response: Any) -> Send:
        """The response, encoded in the version of the request."""
        return self.send_encoded(self.encode(response))

    def refuse(self, code: ErrorCode) -> Send:
        """The response that carries only an error; see `refusals`."""
        return self.send(refusal(self._api_key, code))

    def encode(self, response: Any) -> list[Any]:
        """A response in the version of the request, without its header."""
        parts: list[Any] = encoder(type(response), self.version)(response)
        return parts

    def send_encoded(self, parts: list[Any]) -> Send:
        """A response body that is encoded already, behind its header."""
        header = response_header(self._api_key, self.version, self._correlation_id)
        first = parts[0]
        if type(first) is bytes:
            return Send(header + first, *parts[1:])
        return Send(header, *parts)


class Call(Envelope):
    """One request that is served.

    Attributes:
        request: the slot; also the token under which state machines park it.
        now_ms: wall clock, milliseconds since the epoch.
        quota: what the request counts for; None while no quotas are set.
        cost: what it has cost so far, see `spend`.
    """

    __slots__ = ("_turn_left", "broker", "cost", "now_ms", "quota", "request")

    def __init__(
        self,
        broker: Broker,
        request: Request,
        session: Session,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        now_ms: int,
    ) -> None:
        super().__init__(session, api_key, version, correlation_id, client_id)
        self.broker = broker
        self.request = request
        self.now_ms = now_ms
        self.quota: RequestQuota | None = None
        self.cost = 0
        self._turn_left = TURN_COST

    @property
    def address(self) -> tuple[str, int] | None:
        """The host and port by which this client reaches the broker; None where its listener is not advertised."""
        return self.broker.ports.advertised(self.session.listener)

    @property
    def sequence(self) -> int:
        return self.request.sequence

    @property
    def features(self) -> Features | None:
        return self.broker.features

    @property
    def is_telemetry_wanted(self) -> bool:
        return bool(self.broker.config.pipeline_telemetry_file)

    def spend(self, cost: int) -> bool:
        """Charge work that was done; True when its turn is over, and the handler should yield.

        Args:
            cost: about microseconds.

        Raises:
            ResponseTooLargeError: the request has cost REQUEST_COST_MAX.
        """
        if self.cost + cost > REQUEST_COST_MAX:
            raise ResponseTooLargeError(f"a request may take about {REQUEST_COST_MAX / 1e6:.0f} s of work")
        return self.is_turn_over(cost)

    def is_turn_over(self, cost: int) -> bool:
        """The same for work that its request pays for by its size, such as records, and that no other bound is for."""
        self.cost += cost
        self._turn_left -= cost
        if self._turn_left > 0:
            return False
        self._turn_left = TURN_COST
        return True

    def show(self, response: Any) -> None:
        self.request.answer = response

    def send(self, response: Any) -> Send:
        """The response, encoded in the version of the request; a client that exceeds a quota is throttled with it."""
        self._settle(response)
        return super().send(response)

    def send_in_steps(self, response: Any) -> Generator[None, None, Send]:
        """`send` for a response that may be large: others have their turns while it is encoded.

        Raises:
            ResponseTooLargeError: it has more than RESPONSE_BYTES_MAX bytes.
        """
        self._settle(response)
        parts = yield from stepwise_encoder(type(response), self.version)(response)
        return self.send_encoded(parts)

    def _settle(self, response: Any) -> None:
        """Show the response to observers, and tell in it how long the client is throttled."""
        self.request.answer = response
        if self.quota is not None:
            throttle_ms = self.quota.settle()
            if throttle_ms:
                throttle(self.request, throttle_ms)
                response.throttle_time_ms = throttle_ms
