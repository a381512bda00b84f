"""The context of one request: its session, version, costs and response."""

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
    from pipeline_broker.base.error_code import ErrorCode
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.quotas.quotas import RequestQuota
    from pipeline_broker.security.acl import AclOperation, ResourceType
    from pipeline_broker.state.features import Features
    from stages.request import Request

__all__ = ["Call", "Envelope", "Session"]

UNKNOWN_SOFTWARE: Final = "unknown"
REQUEST_COST_MAX: Final = 2_000_000
"""Cost limit of one request over all its turns, about microseconds. A request above it is refused with
POLICY_VIOLATION.
"""


@attrs.define(eq=False)
class Session:
    """The state of the client on one connection.

    Attributes:
        host: the client's address.
        listener: name of the listener that accepted the connection.
        client_id: from the last valid ApiVersions request, truncated; None if null, and before the first request.
        security_protocol: protocol of the listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        principal: the authenticated principal.
        is_by_token: whether the client authenticated with a delegation token.
        is_privileged: whether the connection came through the inter-broker listener.
        is_trusted: whether every operation is allowed, without ACLs. Calls of an embedding program are trusted.
        denied: the first right that the client lacked: operation, type and name of the resource.
        has_warned_of_text: whether the log has the warning about text that is not UTF-8.
        software_name, software_version: from the last valid ApiVersions request that names them.
        software_since: sequence of that request; the names apply to later requests only.
        produce_templates: the produce fast path of the connection; None before the first template.
    """

    host: str
    listener: str
    client_id: str | None = None
    security_protocol: str = "PLAINTEXT"
    principal: KafkaPrincipal = ANONYMOUS
    is_by_token: bool = False
    is_privileged: bool = False
    is_trusted: bool = False
    denied: tuple[AclOperation, ResourceType, str] | None = None
    has_warned_of_text: bool = False
    software_name: str = UNKNOWN_SOFTWARE
    software_version: str = UNKNOWN_SOFTWARE
    software_since: int = -1
    produce_templates: ProduceTemplates | None = None


class Envelope:
    """The part of a request that a response needs, available before the client has authenticated.

    Attributes:
        client_id: from the request header; None if null.
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
        """The position of the request on its connection; -1 before the client has authenticated."""
        return -1

    @property
    def features(self) -> Features | None:
        """The features of the cluster; None before the client has authenticated."""
        return None

    @property
    def destination(self) -> tuple[str, int] | None:
        """The ids of the cluster and of the broker; None before the client has authenticated."""
        return None

    @property
    def is_telemetry_wanted(self) -> bool:
        """True if ApiVersions advertises client telemetry (KIP-714); False before the client has authenticated."""
        return False

    def show(self, response: Any) -> None:
        """Give a response to the observers of the request; does nothing before authentication."""

    def send(self, response: Any) -> Send:
        """Encode a response in the version of the request, with its header."""
        return self.send_encoded(self.encode(response))

    def refuse(self, code: ErrorCode) -> Send:
        """Return the response that carries only an error; see `refusals`."""
        return self.send(refusal(self._api_key, code))

    def encode(self, response: Any) -> list[Any]:
        """Encode a response in the version of the request, without its header."""
        parts: list[Any] = encoder(type(response), self.version)(response)
        return parts

    def send_encoded(self, parts: list[Any]) -> Send:
        header = response_header(self._api_key, self.version, self._correlation_id)
        first = parts[0]
        if type(first) is bytes:
            return Send(header + first, *parts[1:])
        return Send(header, *parts)


class Call(Envelope):
    """One request and the broker that serves it. It lives as long as the request.

    Attributes:
        request: the request's slot in its connection; state machines park requests under it.
        now_ms: wall clock, milliseconds since the epoch.
        quota: the client's quota; None while no quotas are set.
        cost: work charged so far, about microseconds; see `spend`.
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
    def sequence(self) -> int:
        return self.request.sequence

    @property
    def features(self) -> Features | None:
        return self.broker.features

    @property
    def destination(self) -> tuple[str, int] | None:
        return self.broker.cluster_id, self.broker.leadership.broker_id

    @property
    def is_telemetry_wanted(self) -> bool:
        return bool(self.broker.config.pipeline_telemetry_file)

    def spend(self, cost: int) -> bool:
        """Charge work and return whether the turn is used up, so that the handler must yield.

        Args:
            cost: about microseconds.

        Raises:
            ResponseTooLargeError: the request would cost more than REQUEST_COST_MAX.
        """
        if self.cost + cost > REQUEST_COST_MAX:
            raise ResponseTooLargeError(f"a request may take about {REQUEST_COST_MAX / 1e6:.0f} s of work")
        return self.is_turn_over(cost)

    def is_turn_over(self, cost: int) -> bool:
        """Charge work and return whether the turn is used up, like `spend`, but without the limit of REQUEST_COST_MAX.

        Use it for work that is bounded otherwise, such as records: the size of the request bounds them.
        """
        self.cost += cost
        self._turn_left -= cost
        if self._turn_left > 0:
            return False
        self._turn_left = TURN_COST
        return True

    def show(self, response: Any) -> None:
        self.request.answer = response

    def send(self, response: Any) -> Send:
        """Encode a response in the version of the request, with its header.

        The response is shown to the observers of the request. A client that exceeds a quota is throttled.
        """
        self._settle(response)
        return super().send(response)

    def send_in_steps(self, response: Any) -> Generator[None, None, Send]:
        """Like `send`, but yields while encoding, so that a large response does not block other requests.

        Raises:
            ResponseTooLargeError: the response has more than RESPONSE_BYTES_MAX bytes.
        """
        self._settle(response)
        parts = yield from stepwise_encoder(type(response), self.version)(response)
        return self.send_encoded(parts)

    def _settle(self, response: Any) -> None:
        self.request.answer = response
        if self.quota is not None:
            throttle_ms = self.quota.settle()
            if throttle_ms:
                # KIP-219: the response leaves now with the throttle time, during which the connection is not read.
                throttle(self.request, throttle_ms)
                response.throttle_time_ms = throttle_ms
