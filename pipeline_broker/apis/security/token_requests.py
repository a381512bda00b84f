"""Shared checks and responses of the four delegation token APIs (KIP-48)."""

from __future__ import annotations

from collections.abc import Callable

from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.delegation_tokens import TokenError
from pipeline_broker.security.principal import ANONYMOUS
from pipeline_broker.state.outcome import Write
from stages.request import Result

__all__ = ["change_expiry", "may_ask_for_tokens"]


def may_ask_for_tokens(call: Call) -> bool:
    """Return whether the client has authenticated, and not with a delegation token, as KIP-48 requires."""
    session = call.session
    is_stranger = session.security_protocol == "SSL" and session.principal == ANONYMOUS
    return not (session.is_by_token or session.security_protocol == "PLAINTEXT" or is_stranger)


def change_expiry(
    call: Call, change: Callable[[], tuple[int, Write]], response: Callable[[ErrorCode, int], object]
) -> Result:
    """Change the expiry time of a token, and return a result that responds once the change is durable.

    Args:
        change: returns the new time, milliseconds since the epoch, and the write; raises TokenError to refuse it.
        response: builds the response from an error code and a time. As in Kafka, the time of an error is 0, or -1 if
            the client may not use token requests at all.
    """
    if not may_ask_for_tokens(call):
        return call.send(response(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1))
    try:
        expires_ms, write = change()
    except TokenError as error:
        return call.send(response(error.code, 0))
    answer = call.send(response(ErrorCode.NONE, expires_ms))
    return call.broker.commit_metadata([(write, call.broker.delegation_tokens.durable)], call.now_ms, answer)
