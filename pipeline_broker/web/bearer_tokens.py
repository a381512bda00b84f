"""The check of secret tokens that requests present, in constant time."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

__all__ = ["bears_token", "is_token"]


def is_token(shown: str, token: str) -> bool:
    return hmac.compare_digest(shown.encode(errors="replace"), token.encode())


def bears_token(headers: Mapping[str, str], token: str) -> bool:
    """Return whether the header `Authorization` has the scheme Bearer and this token (RFC 6750, section 2.1)."""
    scheme, _, shown = headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and is_token(shown.strip(), token)
