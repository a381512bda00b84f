"""A request over HTTP, in the calling thread. Its libraries take long to import, so import this module on first use."""

import base64
import contextlib
import ssl
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

__all__ = ["RequestFailedError", "Response", "UntrustedServerError", "basic_authorization", "send_request"]


class RequestFailedError(Exception):
    pass


class UntrustedServerError(RequestFailedError):
    pass


class Response(NamedTuple):
    status: int
    reason: str
    body: bytes  # cut off at a limit; that of an error may be incomplete

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class _NoRedirects(HTTPRedirectHandler):
    # Never follow a redirect: it would send the secrets of a request to another address.
    def redirect_request(self, *_: object) -> None:
        return None


def basic_authorization(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def send_request(
    url: str,
    headers: Mapping[str, str],
    *,
    form: Mapping[str, str] | None = None,
    context: ssl.SSLContext | None = None,
    seconds_max: float,
    bytes_max: int,
) -> Response:
    """Get an address, or post a form to it, without redirects. A response of any status is returned.

    Args:
        url: an address of http or https; the caller checks that.
        form: None for a GET.
        context: the TLS context for https; None for the system's.
        seconds_max: longest wait for each read.
        bytes_max: length at which the body is cut off.

    Raises:
        RequestFailedError: the server cannot be reached, or its response cannot be read. The text is one line.
        UntrustedServerError: the client does not trust the certificate of the server.
    """
    data = None if form is None else urlencode(form).encode()
    request = Request(url, data, dict(headers))  # noqa: S310 - http and https only, see `url`
    opener: Any = build_opener(_NoRedirects, HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=seconds_max) as response:
            return Response(response.status, response.reason, response.read(bytes_max))
    except HTTPError as error:
        body = b""
        with error, contextlib.suppress(OSError, HTTPException):  # the body may be cut off
            body = error.read(bytes_max)
        return Response(error.code, error.reason, body)
    except (OSError, HTTPException, ValueError) as error:  # ValueError: a host that IDNA refuses
        reason = getattr(error, "reason", error)
        words = getattr(reason, "verify_message", None) or getattr(reason, "strerror", None) or reason
        is_untrusted = isinstance(reason, ssl.SSLCertVerificationError)
        raise (UntrustedServerError if is_untrusted else RequestFailedError)(str(words)) from None
