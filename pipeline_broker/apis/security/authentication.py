"""Who the client of one connection is: SASL in Kafka's frames, before the first request and again when time is up.

Rules of this file: what a frame means where the conversation stands is a table; a frame that means nothing there ends
it. Nothing is decoded that is not of this conversation, and no handler of another API is asked for an answer, because
those may look at, or change, what belongs to clients who are known. No answer says more than which mechanism failed;
the reason is for the log. A client that proves itself again must do so by the same mechanism and be the same (KIP-368).
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pipeline_broker.apis.call import Envelope, Session
from pipeline_broker.apis.cluster import api_versions
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.security.principal import USER, KafkaPrincipal
from pipeline_broker.security.sasl import AuthenticationFailedError, SaslServer
from pipeline_broker.wire.codec import DecodeError, decode
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.header import RequestHeader, read_request_header
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from pipeline_broker.wire.registry import ApiKey
from stages.authentication import Conversation, Reply

if TYPE_CHECKING:
    from pipeline_broker.security.offer import SaslOffer
    from stages.request import Buffer

__all__ = ["SaslAuthenticator"]

logger = logging.getLogger(__name__)

HANDSHAKE_KEY = int(ApiKey.SASL_HANDSHAKE).to_bytes(2)
REAUTHENTICATION_INTERVAL_NS_MIN = 1_000_000_000
"""As in Kafka a client may begin again once a second."""
WRAPPED_FROM = 1
"""The first version of SaslHandshake after which tokens come in SaslAuthenticate requests."""
NS_PER_MS = 1_000_000


class State(enum.Enum):
    """What is expected next."""

    VERSIONS_OR_HANDSHAKE = enum.auto()
    HANDSHAKE = enum.auto()
    TOKEN = enum.auto()
    """In a SaslAuthenticate request."""
    RAW_TOKEN = enum.auto()
    """As a frame without a header: what follows version 0 of the handshake."""
    OTHER_MECHANISM = enum.auto()
    """The client began again with a mechanism that is not the one before; its next frame ends it."""
    COMPLETE = enum.auto()
    FAILED = enum.auto()


OUT_OF_TURN = {
    int(ApiKey.API_VERSIONS): ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE),
    int(ApiKey.SASL_HANDSHAKE): SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE),
}
"""The answers in place of a token's."""
CONVERSATION = {State.COMPLETE: Conversation.SUCCEEDED, State.FAILED: Conversation.FAILED}
"""What the connection is told; it goes on in every other state."""


class SaslAuthenticator:
    """The authenticator of one connection; see `stages.authentication.Authenticator`.

    Args:
        session: told who the client is.
        current_offer: what the listener offers; asked again when the client proves itself again, so that a user who
            was taken away, or a password that was changed, counts until then at most.
        clock_ms: wall clock, milliseconds since the epoch, in which tokens expire.
        clock_ns: a clock that only goes forward, in nanoseconds.
        failed: told of a conversation that failed: who may have been meant, the mechanism, and why; each empty where
            it is not known.

    Attributes:
        frame_bytes_max: largest frame while the conversation lasts.
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
        self._before: tuple[str, KafkaPrincipal] | None = None  # mechanism and principal, when it begins again
        self._began_again_ns: int | None = None
        self._expires_ns: int | None = None

    # What the connection asks

    def receive(self, frame: Buffer) -> Reply:
        if self._state is State.COMPLETE:
            self._begin_again()
        state, self._state = self._state, State.FAILED
        try:
            parts = STEPS[state](self, frame)
        except (AuthenticationFailedError, DecodeError) as error:
            parts = ()
            self._tell(str(error))
        if self._state is State.FAILED:
            self._server = None
        return Reply(CONVERSATION.get(self._state, Conversation.CONTINUES), parts)

    def begins(self, frame: Buffer) -> bool:
        """See Authenticator; without an end of the session it is a request like any other, which will be refused."""
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

    # The steps: each answers and says by the state what comes next; the state is FAILED unless it does

    def _versions_or_handshake(self, frame: Buffer) -> tuple[Buffer, ...]:
        header, position = read_request_header(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            return self._versions(header, frame, position)
        return self._handshake(header, frame, position)

    def _handshake_only(self, frame: Buffer) -> tuple[Buffer, ...]:
        header, position = read_request_header(frame)
        return self._handshake(header, frame, position)

    def _versions(self, header: RequestHeader, frame: Buffer, position: int) -> tuple[Buffer, ...]:
        """Answer once; a client that was refused may ask again."""
        call = self._call(header)
        if header.api_version not in SERVED[ApiKey.API_VERSIONS].versions:
            self._state = State.VERSIONS_OR_HANDSHAKE
            return api_versions.unsupported_version(call).parts
        request, _ = decode(ApiVersionsRequest, header.api_version, frame, position)
        is_valid = api_versions.is_valid(call, request)
        self._state = State.HANDSHAKE if is_valid else State.VERSIONS_OR_HANDSHAKE
        return api_versions.handle(call, request).parts

    def _handshake(self, header: RequestHeader, frame: Buffer, position: int) -> tuple[Buffer, ...]:
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            raise AuthenticationFailedError(f"a request of API {header.api_key} before the handshake")
        if header.api_version not in SERVED[ApiKey.SASL_HANDSHAKE].versions:
            raise AuthenticationFailedError(f"a handshake of version {header.api_version}")
        request, _ = decode(SaslHandshakeRequest, header.api_version, frame, position)
        names = list(self._offer.mechanisms)
        begin = self._offer.servers.get(request.mechanism)
        if begin is None:
            self._tell("a mechanism that is not offered")
            refusal = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=names)
            return self._send(header, refusal)
        if self._before is not None and self._before[0] != request.mechanism:
            self._state = State.OTHER_MECHANISM
        else:
            self._server, self._mechanism = begin(), request.mechanism
            self._state = State.TOKEN if header.api_version >= WRAPPED_FROM else State.RAW_TOKEN
        return self._send(header, SaslHandshakeResponse(mechanisms=names))

    def _raw_token(self, frame: Buffer) -> tuple[Buffer, ...]:
        answer, _ = self._answer(bytes(frame), State.RAW_TOKEN)
        return (answer,)

    def _token(self, frame: Buffer) -> tuple[Buffer, ...]:
        header, position = read_request_header(frame)
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            return self._refuse(header)
        if header.api_version not in SERVED[ApiKey.SASL_AUTHENTICATE].versions:
            raise AuthenticationFailedError(f"a token in version {header.api_version}")
        request, _ = decode(SaslAuthenticateRequest, header.api_version, frame, position)
        try:
            answer, lifetime_ms = self._answer(request.auth_bytes, State.TOKEN)
        except AuthenticationFailedError as error:
            self._tell(str(error))
            text = error.client_text or (
                f"Authentication failed during {'re-authentication' if self._before else 'authentication'}"
                f" due to invalid credentials with SASL mechanism {self._mechanism}"
            )
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            return self._send(header, SaslAuthenticateResponse(error_code=code, error_message=text))
        return self._send(header, SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms))

    def _refuse(self, header: RequestHeader) -> tuple[Buffer, ...]:
        """What belongs elsewhere in the conversation is answered with an error; all else ends it without a word."""
        if header.api_key not in OUT_OF_TURN or header.api_version not in SERVED[header.api_key].versions:
            raise AuthenticationFailedError(f"a request of API {header.api_key} in place of a token")
        self._tell(f"a request of {SERVED[header.api_key].name} in place of a token")
        return self._send(header, OUT_OF_TURN[header.api_key])

    def _other_mechanism(self, frame: Buffer) -> tuple[Buffer, ...]:
        raise AuthenticationFailedError(f"another mechanism than {self._mechanism}, by a frame of {len(frame)} bytes")

    # What the steps have in common

    def _answer(self, token: bytes, again: State) -> tuple[bytes, int]:
        """The mechanism's answer, and how long the proof counts if it is complete; else `again` is the state."""
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
        """Until when the proof counts: the listener's limit or its own end, whichever comes first."""
        ends_ms = [] if proof_expires_ms is None else [max(0, proof_expires_ms - self._clock_ms())]
        limit_ms = self._offer.lifetimes_ms_max[self._mechanism]
        if limit_ms > 0:
            ends_ms.append(limit_ms)
        self._expires_ns = self._clock_ns() + min(ends_ms) * NS_PER_MS if ends_ms else None
        return min(ends_ms, default=0)

    def _call(self, header: RequestHeader) -> Envelope:
        return Envelope(self._session, header.api_key, header.api_version, header.correlation_id, header.client_id)

    def _send(self, header: RequestHeader, response: Any) -> tuple[Buffer, ...]:
        return self._call(header).send(response).parts

    def _tell(self, reason: str) -> None:
        name, session = self._server.name if self._server else "", self._session
        self._failed(name, self._mechanism, reason)
        said = f" as {name!r} by {self._mechanism}" if name else ""
        logger.info("%s has not authenticated on %s%s: %s", session.host, session.listener, said, reason)


STEPS: dict[State, Callable[[SaslAuthenticator, Buffer], tuple[Buffer, ...]]] = {
    State.VERSIONS_OR_HANDSHAKE: SaslAuthenticator._versions_or_handshake,  # noqa: SLF001 - the table of that class
    State.HANDSHAKE: SaslAuthenticator._handshake_only,  # noqa: SLF001 - the table of that class
    State.TOKEN: SaslAuthenticator._token,  # noqa: SLF001 - the table of that class
    State.RAW_TOKEN: SaslAuthenticator._raw_token,  # noqa: SLF001 - the table of that class
    State.OTHER_MECHANISM: SaslAuthenticator._other_mechanism,  # noqa: SLF001 - the table of that class
}
"""What a frame means, by what is expected."""
