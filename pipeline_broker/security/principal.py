"""Kafka principals: the identities of clients, in the form `type:name`."""

from __future__ import annotations

import attrs

__all__ = ["ANONYMOUS", "USER", "KafkaPrincipal"]

USER = "User"


@attrs.frozen
class KafkaPrincipal:
    """A principal. The type is nearly always `User`. Comparisons are exact, including case, as in Kafka."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = KafkaPrincipal(USER, "ANONYMOUS")
"""The principal of clients on a listener without authentication."""
