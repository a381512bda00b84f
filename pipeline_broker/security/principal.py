"""Who a client is, in Kafka's form `type:name`.

Rules of this file: a principal is compared as it is, case included (Kafka's KafkaPrincipal).
"""

from __future__ import annotations

import attrs

__all__ = ["ANONYMOUS", "USER", "KafkaPrincipal"]

USER = "User"


@attrs.frozen
class KafkaPrincipal:
    """A type, nearly always `User`, and a name."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = KafkaPrincipal(USER, "ANONYMOUS")
"""Whoever came by a listener that asks for no proof."""
