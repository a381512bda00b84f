"""Access control of the dashboard's HTTP port.

A web page from another site that is open in a browser can send requests to this machine. Therefore Host, Origin and
Sec-Fetch-Site must name this dashboard (`web/strangers.py`), and:

* A change needs an Origin, which browsers send with every POST, and a JSON body. `--dashboard-read-only` refuses all
  changes.
* A token of 256 random bits is needed if the broker authenticates clients, or if other machines can reach the port. The
  broker prints a link with the token at startup. The link sets a cookie, which only pages of this port send back.
* A user of `--http-users` needs no token. A read-only one changes nothing, and `rights` lists what each may see.
"""

from __future__ import annotations

import http

import attrs

from pipeline_broker.web.bearer_tokens import bears_token, is_token
from pipeline_broker.web.hosts import is_unspecified
from pipeline_broker.web.messages import Answer, HttpRequest, refusal
from pipeline_broker.web.strangers import SameOriginCheck

__all__ = ["Access"]

SAFE_METHODS = frozenset({"GET", "HEAD"})
COOKIE_SECONDS = 30 * 24 * 3600


@attrs.frozen(kw_only=True)
class Access:
    """The rules for requests to one dashboard.

    Attributes:
        host: the bound address.
        token: a secret that clients must present; None if no token is needed.
        is_read_only: refuse all changes.
        scheme: "http" or "https".
    """

    host: str
    port: int
    token: str | None = None
    is_read_only: bool = False
    scheme: str = "http"

    @property
    def cookie_name(self) -> str:
        # Browsers send a cookie to all ports of a host, so dashboards on other ports need other names.
        return f"pipeline_broker_dashboard_{self.port}"

    def check(self, request: HttpRequest, *, is_page: bool) -> Answer | None:
        """Return the refusal of a request, or None if it is allowed.

        The link with the token gets a redirection that removes the token from the address.

        Args:
            is_page: whether the address is an HTML page. Only a page accepts the link, and may be linked from other
                sites.
        """
        headers = request.headers
        # A server that binds all addresses is reached by each of them.
        is_any = is_unspecified(self.host)
        place = SameOriginCheck(host=self.host, port=self.port, any_address=is_any, scheme=self.scheme)
        reason = place.refusal(headers, is_page=is_page)
        if reason is not None:
            return _forbidden(reason)
        if request.method not in SAFE_METHODS:
            if "origin" not in headers:
                return _forbidden("a change needs an Origin header")
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return refusal(
                    http.HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a change needs the header Content-Type: application/json"
                )
        refused = None if self.token is None else self._check_token(request, self.token, is_page=is_page)
        if refused is not None or request.method in SAFE_METHODS:
            return refused
        if self.is_read_only:
            return _forbidden("this dashboard is read-only")
        reason = None if request.user is None else request.user.refusal
        return None if reason is None else _forbidden(reason)

    def _check_token(self, request: HttpRequest, token: str, *, is_page: bool) -> Answer | None:
        if bears_token(request.headers, token):
            return None
        for cookie in request.headers.get("cookie", "").split(";"):
            name, _, value = cookie.strip().partition("=")
            if name == self.cookie_name and is_token(value, token):
                return None
        if is_page and is_token(request.query.get("token", ""), token):
            cookie = f"{self.cookie_name}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={COOKIE_SECONDS}"
            cookie += "; Secure" if self.scheme == "https" else ""
            answer = refusal(http.HTTPStatus.SEE_OTHER, "the token is now in a cookie", ("Set-Cookie", cookie))
            return attrs.evolve(answer, headers=(*answer.headers, ("Location", request.path)))
        return refusal(
            http.HTTPStatus.UNAUTHORIZED,
            "the token is missing or wrong; open the link that the broker printed at startup",
        )


def _forbidden(reason: str) -> Answer:
    return refusal(http.HTTPStatus.FORBIDDEN, reason)
