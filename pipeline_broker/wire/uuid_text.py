"""UUIDs as text, in the form of Kafka's `Uuid.toString`."""

from __future__ import annotations

import base64

__all__ = ["uuid_text"]


def uuid_text(value: bytes) -> str:
    """Return a UUID of 16 bytes as URL-safe base64 without padding: 22 characters."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")
