"""How the dashboard is asked for.

Rules of this file: values only; it imports neither Trio nor h11.
"""

from __future__ import annotations

import attrs

from pipeline_broker.web.hosts import LOOPBACK, parse_host_port

__all__ = ["DashboardOptions"]


@attrs.frozen
class DashboardOptions:
    """Where it is served.

    Attributes:
        port: 0 takes a free one.
        host: an address; another than of this machine asks for a token.
        beside: the dashboard of a second broker, `HOST:PORT` or its link; None for none.
        is_read_only: it changes nothing.
        principal: whose rights count for what it changes and asks, `User:NAME`; None: it may do everything.
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
        """`PORT` or `HOST:PORT`, and the other options; raises ValueError with one line."""
        host, port = parse_host_port(text)
        if principal is not None and not all(principal.partition(":")):
            raise ValueError(f"the principal must be TYPE:NAME, such as User:alice, not {principal!r}")
        return cls(port, host, beside, is_read_only, principal)
