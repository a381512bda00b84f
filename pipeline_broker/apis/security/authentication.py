"""SASL authentication of one connection, before its first request and again before its session expires (KIP-368).

The handlers of other APIs are never called during authentication, because they read or change data of authenticated
clients. No response says more than the mechanism that failed; the reason is logged.

Counterpart in Kafka: `SaslServerAuthenticator`, `SslTransportLayer`; responses keep their order when a client
authenticates again.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pipeline_broker.apis.call import Envelope, Session
from pipeline_broker.apis.cluster import api_versions
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.principal import USER, KafkaPrincipal
from pipeline_broker.security.sasl import AuthenticationFailedError, SaslServer
from pipeline_broker.wire.codec import DecodeError, decode
from pipeline_broker.wire.header import RequestHeader, read_request_header
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from pipeline_broker.wire.registry import ApiKey
from stages.authentication import Conversation, Reply

if TYPE_CHECKING:
    from pipeline_broker.security.offer import SaslOffer
    from stages.request import Buffer, Part

__all__ = ["SaslAuthenticator"]

logger = logging.getLogger(__name__)

HANDSHAKE_KEY = int(ApiKey.SASL_HANDSHAKE).to_bytes(2)
# As in Kafka, a client may re-authenticate at most once a second.
REAUTHENTICATION_INTERVAL_NS_MIN = 1_000_000_000
# The first version of SaslHandshake after which tokens arrive in SaslAuthenticate requests.
WRAPPED_FROM = 1
NS_PER_MS = 1_000_000


class State(enum.Enum):
    VERSIONS_OR_HANDSHAKE = enum.auto()
    HANDSHAKE = enum.auto()
    # A token in a SaslAuthenticate request.
    TOKEN = enum.auto()
    # A token as a frame without a header, after version 0 of the handshake.
    RAW_TOKEN = enum.auto()
    # The client re-authenticates with another mechanism; its next frame fails.
    OTHER_MECHANISM = enum.auto()
    COMPLETE = enum.auto()
    FAILED = enum.auto()


# Responses to requests that arrive in place of a token.
OUT_OF_TURN = {
    int(ApiKey.API_VERSIONS): ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE),
    int(ApiKey.SASL_HANDSHAKE): SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE),
}
# The state reported to the connection; in every other state the conversation continues.
CONVERSATION = {State.COMPLETE: Conversation.SUCCEEDED, State.FAILED: Conversation.FAILED}


class SaslAuthenticator:
    """The authenticator of one connection; see `stages.authentication.Authenticator`.

    `_STEPS` says how each state handles a frame. A frame that is invalid in its state fails the authentication. On
    re-authentication the mechanism and the principal must stay the same (KIP-368).

    Args:
        session: receives the principal.
        current_offer: returns the offer of the listener. It is called again on re-authentication, so that a deleted
            user or a changed password takes effect then.
        clock_ms: wall clock, milliseconds since the epoch; decides when tokens expire.
        clock_ns: monotonic clock, nanoseconds.
        failed: called for a failed authentication with the claimed user, the mechanism and the reason; unknown ones are
            empty.

    Attributes:
        frame_bytes_max: largest frame during authentication.
    """

    def __init__(
        self,
        session: Session,
        current_offer: Callable[[], SaslOffer],
        clock_ms: Callable[[], int] = lambda: time.time_ns() // NS_PER_MS,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        failed: Callable[[str, str, str], None] = lambda *_: None,
    ) -> None:
        self._session = session
        self._current_offer = current_offer
        self._offer = current_offer()
        self.frame_bytes_max = self._offer.frame_bytes_max
        self._clock_ms = clock_ms
        self._clock_ns = clock_ns
        self._failed = failed
        self._state = State.VERSIONS_OR_HANDSHAKE
        self._server: SaslServer | None = None
        self._mechanism = ""
        self._before: tuple[str, KafkaPrincipal] | None = None  # mechanism and principal during re-authentication
        self._began_again_ns: int | None = None
        self._expires_ns: int | None = None

    # The interface of the connection

    def receive(self, frame: Buffer) -> Reply:
        if self._state is State.COMPLETE:
            self._begin_again()
        state, self._state = self._state, State.FAILED
        try:
            parts = self._STEPS[state](self, frame)
        except (AuthenticationFailedError, DecodeError) as error:
            parts = ()
            self._report_failure(str(error))
        if self._state is State.FAILED:
            self._server = None
        return Reply(CONVERSATION.get(self._state, Conversation.CONTINUES), parts)

    def begins(self, frame: Buffer) -> bool:
        # Without a session lifetime, a handshake is an ordinary request, and its handler refuses it.
        if self._expires_ns is None or bytes(frame[:2]) != HANDSHAKE_KEY:
            return False
        began_ns = self._began_again_ns
        return began_ns is None or self._clock_ns() - began_ns >= REAUTHENTICATION_INTERVAL_NS_MIN

    def has_expired(self) -> bool:
        return self._expires_ns is not None and self._clock_ns() > self._expires_ns

    def _begin_again(self) -> None:
        self._before = self._mechanism, self._session.principal
        self._began_again_ns = self._clock_ns()
        self._offer = self._current_offer()
        self._state = State.HANDSHAKE

    # The steps. Each returns a response and sets the next state; `receive` has set FAILED for a step that does not.

    def _versions_or_handshake(self, frame: Buffer) -> tuple[Part, ...]:
        header, position = read_request_header(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            return self._versions(header, frame, position)
        return self._handshake(header, frame, position)

    def _handshake_only(self, frame: Buffer) -> tuple[Part, ...]:
        header, position = read_request_header(frame)
        return self._handshake(header, frame, position)

    def _versions(self, header: RequestHeader, frame: Buffer, position: int) -> tuple[Part, ...]:
        call = self._call(header)
        if header.api_version not in SERVED[ApiKey.API_VERSIONS].versions:
            self._state = State.VERSIONS_OR_HANDSHAKE
            return api_versions.unsupported_version(call).parts
        request, _ = decode(ApiVersionsRequest, header.api_version, frame, position)
        is_valid = api_versions.is_valid(call, request)
        # A client may send one valid ApiVersions request; after a refused one it may try again.
        self._state = State.HANDSHAKE if is_valid else State.VERSIONS_OR_HANDSHAKE
        return api_versions.handle(call, request).parts

    def _handshake(self, header: RequestHeader, frame: Buffer, position: int) -> tuple[Part, ...]:
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            raise AuthenticationFailedError(
                f"the client sent a request of API key {header.api_key} before the handshake"
            )
        if header.api_version not in SERVED[ApiKey.SASL_HANDSHAKE].versions:
            raise AuthenticationFailedError(
                f"the client sent a handshake of version {header.api_version}, which the broker does not serve"
            )
        request, _ = decode(SaslHandshakeRequest, header.api_version, frame, position)
        names = list(self._offer.mechanisms)
        begin = self._offer.servers.get(request.mechanism)
        if begin is None:
            self._report_failure("the listener does not offer the mechanism")
            refusal = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=names)
            return self._send(header, refusal)
        if self._before is not None and self._before[0] != request.mechanism:
            # The handshake still succeeds; the next frame fails.
            self._state = State.OTHER_MECHANISM
        else:
            self._server, self._mechanism = begin(), request.mechanism
            self._state = State.TOKEN if header.api_version >= WRAPPED_FROM else State.RAW_TOKEN
        return self._send(header, SaslHandshakeResponse(mechanisms=names))

    def _raw_token(self, frame: Buffer) -> tuple[Part, ...]:
        answer, _ = self._answer(bytes(frame), State.RAW_TOKEN)
        return (answer,)

    def _token(self, frame: Buffer) -> tuple[Part, ...]:
        header, position = read_request_header(frame)
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            return self._refuse(header)
        if header.api_version not in SERVED[ApiKey.SASL_AUTHENTICATE].versions:
            raise AuthenticationFailedError(
                f"the client sent a token in version {header.api_version}, which the broker does not serve"
            )
        request, _ = decode(SaslAuthenticateRequest, header.api_version, frame, position)
        try:
            answer, lifetime_ms = self._answer(request.auth_bytes, State.TOKEN)
        except AuthenticationFailedError as error:
            self._report_failure(str(error))
            text = error.client_text or (
                f"Authentication failed during {'re-authentication' if self._before else 'authentication'}"
                f" due to invalid credentials with SASL mechanism {self._mechanism}"
            )
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            return self._send(header, SaslAuthenticateResponse(error_code=code, error_message=text))
        return self._send(header, SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms))

    def _refuse(self, header: RequestHeader) -> tuple[Part, ...]:
        # Only APIs of the conversation get an error response; all others close the connection.
        if header.api_key not in OUT_OF_TURN or header.api_version not in SERVED[header.api_key].versions:
            raise AuthenticationFailedError(f"the client sent a request of API key {header.api_key} instead of a token")
        self._report_failure(f"the client sent a request of {SERVED[header.api_key].name} instead of a token")
        return self._send(header, OUT_OF_TURN[header.api_key])

    def _other_mechanism(self, frame: Buffer) -> tuple[Part, ...]:
        raise AuthenticationFailedError(
            f"the client re-authenticated by another mechanism than {self._mechanism}, in a frame of {len(frame)} bytes"
        )

    # Shared by the steps

    def _answer(self, token: bytes, again: State) -> tuple[bytes, int]:
        """Return the mechanism's answer and the session lifetime in milliseconds, and set the next state.

        The lifetime is 0 if the session has no limit, or if the exchange is not complete. In the latter case the next
        state is `again`.

        Raises:
            AuthenticationFailedError: the mechanism refuses the token, or the principal changes during
                re-authentication.
        """
        assert self._server is not None
        answer = self._server.receive(token)
        if not self._server.is_complete:
            self._state = again
            return answer, 0
        principal = self._server.owner or KafkaPrincipal(USER, self._server.name)
        if self._before is not None and self._before[1] != principal:
            before = self._before[1]
            text = (
                "Cannot change principals during re-authentication from"
                f" {before.type}.{before.name}: {principal.type}.{principal.name}"
            )
            raise AuthenticationFailedError(text, text)
        lifetime_ms = self._set_expiry(self._server.expires_ms)
        self._session.principal, self._session.is_by_token = principal, self._server.is_token
        self._state = State.COMPLETE
        self._server = None
        return answer, lifetime_ms

    def _set_expiry(self, proof_expires_ms: int | None) -> int:
        # The session ends at the listener's limit or when the credential expires, whichever is first.
        ends_ms = [] if proof_expires_ms is None else [max(0, proof_expires_ms - self._clock_ms())]
        limit_ms = self._offer.lifetimes_ms_max[self._mechanism]
        if limit_ms > 0:
            ends_ms.append(limit_ms)
        self._expires_ns = self._clock_ns() + min(ends_ms) * NS_PER_MS if ends_ms else None
        return min(ends_ms, default=0)

    def _call(self, header: RequestHeader) -> Envelope:
        return Envelope(self._session, header.api_key, header.api_version, header.correlation_id, header.client_id)

    def _send(self, header: RequestHeader, response: Any) -> tuple[Part, ...]:
        return self._call(header).send(response).parts

    def _report_failure(self, reason: str) -> None:
        name, session = self._server.name if self._server else "", self._session
        self._failed(name, self._mechanism, reason)
        claim = f" as {name!r} by {self._mechanism}" if name else ""
        logger.info("%s failed to authenticate on %s%s: %s", session.host, session.listener, claim, reason)

    # The step that handles a frame, by state.
    _STEPS: ClassVar[Mapping[State, Callable[[SaslAuthenticator, Buffer], tuple[Part, ...]]]] = {
        State.VERSIONS_OR_HANDSHAKE: _versions_or_handshake,
        State.HANDSHAKE: _handshake_only,
        State.TOKEN: _token,
        State.RAW_TOKEN: _raw_token,
        State.OTHER_MECHANISM: _other_mechanism,
    }
