"""Ids as text.

Rules of this file: the form is that of Kafka's `Uuid.toString`, which all of its tools print.
"""

from __future__ import annotations

import base64

__all__ = ["uuid_text"]


def uuid_text(value: bytes) -> str:
    """URL-safe base64 of 16 bytes, without padding: 22 characters."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")
