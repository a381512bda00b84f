"""Who may ask the dashboard what.

Rules of this file: sans-IO, and every request passes here first. A page of a stranger that a browser has open may send
requests to this machine too, so Host, Origin and Sec-Fetch-Site must be this dashboard's (`web/strangers.py`), and:

    changes   need an Origin, which browsers send with every POST, and a body of JSON; with --dashboard-read-only there
              are none
    token     where the broker itself asks who somebody is, or strangers can reach the port: 256 random bits that are
              printed at the start. The link with the token gives a cookie, which only this port's pages send back
"""

from __future__ import annotations

import hmac
import http

import attrs

from pipeline_broker.web.hosts import is_unspecified
from pipeline_broker.web.messages import Answer, HttpRequest, refusal
from pipeline_broker.web.strangers import SameOriginCheck

__all__ = ["Access"]

SAFE_METHODS = frozenset({"GET", "HEAD"})
COOKIE_SECONDS = 30 * 24 * 3600


@attrs.frozen(kw_only=True)
class Access:
    """See the rules of the file.

    Attributes:
        host: the address that is bound.
        token: what a client must show; None: nothing.
        is_read_only: no change is let through.
    """

    host: str
    port: int
    token: str | None = None
    is_read_only: bool = False

    @property
    def cookie_name(self) -> str:
        """Cookies do not tell ports apart, names do."""
        return f"pipeline_broker_dashboard_{self.port}"

    def check(self, request: HttpRequest, *, is_page: bool) -> Answer | None:
        """The refusal, or the redirection that takes the token out of the address; None where the request may pass."""
        headers = request.headers
        # A server that binds all addresses is reached by each of them.
        place = SameOriginCheck(host=self.host, port=self.port, any_address=is_unspecified(self.host))
        reason = place.refusal(headers, is_page=is_page)
        if reason is not None:
            return _forbidden(reason)
        if request.method not in SAFE_METHODS:
            if "origin" not in headers:
                return _forbidden("a change needs an Origin")
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return refusal(http.HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a change is JSON")
        refused = None if self.token is None else self._check_token(request, self.token, is_page=is_page)
        if refused is None and self.is_read_only and request.method not in SAFE_METHODS:
            return _forbidden("this dashboard is read-only")
        return refused

    def _check_token(self, request: HttpRequest, token: str, *, is_page: bool) -> Answer | None:
        if _is_token(request.headers.get("authorization", "").removeprefix("Bearer "), token):
            return None
        for cookie in request.headers.get("cookie", "").split(";"):
            name, _, value = cookie.strip().partition("=")
            if name == self.cookie_name and _is_token(value, token):
                return None
        if is_page and _is_token(request.query.get("token", ""), token):
            cookie = f"{self.cookie_name}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={COOKIE_SECONDS}"
            answer = refusal(http.HTTPStatus.SEE_OTHER, "the token is kept", ("Set-Cookie", cookie))
            return attrs.evolve(answer, headers=(*answer.headers, ("Location", request.path)))
        return refusal(
            http.HTTPStatus.UNAUTHORIZED, "open the link with the token that the broker printed at its start"
        )


def _is_token(shown: str, token: str) -> bool:
    return hmac.compare_digest(shown.encode(errors="replace"), token.encode())


def _forbidden(reason: str) -> Answer:
    return refusal(http.HTTPStatus.FORBIDDEN, reason)
