"""The options of the dashboard. Imports neither Trio nor h11."""

from __future__ import annotations

import attrs

from pipeline_broker.web.hosts import LOOPBACK, parse_host_port

__all__ = ["DashboardOptions"]


@attrs.frozen
class DashboardOptions:
    """Options of the dashboard.

    Attributes:
        port: 0 selects a free port.
        host: the address to bind. A non-loopback address requires a token.
        beside: the dashboard of a second broker, `HOST:PORT` or its link.
        is_read_only: refuse all changes.
        principal: `TYPE:NAME`; its rights apply to changes and questions. None has all rights.
    """

    port: int
    host: str = LOOPBACK
    beside: str | None = None
    is_read_only: bool = False
    principal: str | None = None

    @classmethod
    def parse(
        cls, text: str, beside: str | None = None, principal: str | None = None, *, is_read_only: bool = False
    ) -> DashboardOptions:
        """Parse `PORT` or `HOST:PORT`, and check the principal.

        Raises:
            ValueError: one of them is invalid; the text is one line.
        """
        host, port = parse_host_port(text)
        if principal is not None and not all(principal.partition(":")):
            raise ValueError(f"the principal must be TYPE:NAME, such as User:alice, not {principal!r}")
        return cls(port, host, beside, is_read_only, principal)
