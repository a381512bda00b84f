"""The check for requests that a stranger's page makes a browser send: one rule for every HTTP port of the broker.

Rules of this file: sans-IO. A page that a browser has open can send requests to this machine and to its network, also
where the port is bound to loopback:

    Host      names the server by an address or an own name. DNS rebinding, a stranger's name that leads here, does not
    Origin    is the server's own, where there is one; `null` is foreign
    Sec-Fetch-Site
              where a browser sends it, is that of our own pages or `none`. A page may be opened from any site
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from pipeline_broker.web.hosts import is_own_name, split_authority

__all__ = ["OwnPlace"]

OWN_SITES = frozenset({"same-origin", "none"})


@attrs.frozen(kw_only=True)
class OwnPlace:
    """The place of a server, as browsers name it.

    Attributes:
        host: that is bound.
        port: that a Host must name; None where forwarding may change it.
        names: by which clients know it beside addresses, in lower case.
        any_address: whether each address is right.
        needs_host: whether a request without a Host is refused; browsers always send one.
    """

    host: str
    port: int | None = None
    names: Collection[str] = ()
    any_address: bool = True
    needs_host: bool = True

    def refusal(self, headers: Mapping[str, str], *, is_page: bool = False) -> str | None:
        """Return why a request is refused, as one line; None if it may pass."""
        authority = headers.get("host")
        if authority is None and self.needs_host:
            return "the request has no Host"
        if authority is not None and not self._is_own(authority):
            return "the Host is not this broker's"
        if headers.get("origin", f"http://{authority}") != f"http://{authority}":
            return "the Origin is not this broker's"
        if not is_page and headers.get("sec-fetch-site", "none") not in OWN_SITES:
            return "another site asks"
        return None

    def _is_own(self, authority: str) -> bool:
        host, port = split_authority(authority)
        if self.port is not None and port != self.port:
            return False
        return is_own_name(host, self.host, self.names, any_address=self.any_address)
