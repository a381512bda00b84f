"""What the four APIs about delegation tokens have in common.

Rules of this file: nobody may ask for tokens who has not proved who it is, or has proved it by a token (KIP-48).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call

__all__ = ["may_ask_for_tokens"]


def may_ask_for_tokens(call: Call) -> bool:
    """Whether the client of a request has proved who it is by more than a token."""
    session = call.session
    is_stranger = session.security_protocol == "SSL" and session.principal == ANONYMOUS
    return not (session.is_by_token or session.security_protocol == "PLAINTEXT" or is_stranger)
