"""The check against cross-site requests, for every HTTP port of the broker.

A page of any site that a browser shows can send requests to this machine and its network, even to a port on loopback.
So each request is checked by its headers:

* `Host` must name the server by an address or one of its names. So a name that DNS rebinding resolves to this machine
  is refused.
* `Origin`, if present, must be the server's own; `null` is foreign.
* `Sec-Fetch-Site`, if present, must be `same-origin` or `none`. Pages may be opened from any site.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from pipeline_broker.web.hosts import HTTP_PORT, HTTPS_PORT, is_own_name, split_authority

__all__ = ["SameOriginCheck"]

OWN_SITES = frozenset({"same-origin", "none"})


@attrs.frozen(kw_only=True)
class SameOriginCheck:
    """The check for one server, whose names and address it knows.

    Attributes:
        host: the host that the server is bound to.
        port: the port that a Host must name; None if port forwarding may change it.
        names: names of the server other than addresses, in lower case.
        any_address: whether every IP address is accepted as a Host.
        needs_host: whether a request without a Host is refused. Browsers always send one.
        scheme: "http" or "https", as in the Origin of own pages.
    """

    host: str
    port: int | None = None
    names: Collection[str] = ()
    any_address: bool = True
    needs_host: bool = True
    scheme: str = "http"

    def refusal(self, headers: Mapping[str, str], *, is_page: bool = False) -> str | None:
        """Return the reason to refuse a request, as one line; None if it is allowed.

        Args:
            headers: by name in lower case.
            is_page: whether the request loads a page, which other sites may link to.
        """
        authority = headers.get("host")
        if authority is None and self.needs_host:
            return "the request has no Host header"
        if authority is not None and not self._is_own(authority):
            return "the Host header does not name this broker"
        own = f"{self.scheme}://{authority}"
        if headers.get("origin", own) != own:
            return "the Origin header does not name this broker"
        if not is_page and headers.get("sec-fetch-site", "none") not in OWN_SITES:
            return "the request comes from another site"
        return None

    def _is_own(self, authority: str) -> bool:
        host, port = split_authority(authority, HTTPS_PORT if self.scheme == "https" else HTTP_PORT)
        if self.port is not None and port != self.port:
            return False
        return is_own_name(host, self.host, self.names, any_address=self.any_address)
