"""What the four APIs about delegation tokens have in common.

Rules of this file: nobody may ask for tokens who has not proved who it is, or has proved it by a token (KIP-48).
"""

from __future__ import annotations

from collections.abc import Callable

from pipeline_broker.apis.call import Call
from pipeline_broker.security.delegation_tokens import TokenError
from pipeline_broker.security.principal import ANONYMOUS
from pipeline_broker.state.outcome import Write
from pipeline_broker.wire.error import ErrorCode
from stages.request import Result

__all__ = ["change_expiry", "may_ask_for_tokens"]


def may_ask_for_tokens(call: Call) -> bool:
    """Whether the client of a request has proved who it is by more than a token."""
    session = call.session
    is_stranger = session.security_protocol == "SSL" and session.principal == ANONYMOUS
    return not (session.is_by_token or session.security_protocol == "PLAINTEXT" or is_stranger)


def change_expiry(
    call: Call, change: Callable[[], tuple[int, Write]], response: Callable[[ErrorCode, int], object]
) -> Result:
    """Let a token last until another time; answered when that is durable.

    Args:
        change: gives the time in milliseconds since 1970 and the write; raises TokenError.
        response: of an error code and a time; with an error -1 where it was not looked for a token, else 0, as Kafka.
    """
    if not may_ask_for_tokens(call):
        return call.send(response(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1))
    try:
        expires_ms, write = change()
    except TokenError as error:
        return call.send(response(error.code, 0))
    answer = call.send(response(ErrorCode.NONE, expires_ms))
    return call.broker.commit_metadata([(write, call.broker.delegation_tokens.durable)], call.now_ms, answer)
