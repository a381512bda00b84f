"""Tokens of OAUTHBEARER: where a client gets them, and how it shows them to a broker.

Rules of this file: a token comes from a file, as with Java's `file:` URLs, or from an identity provider for the
client's credentials, as with librdkafka's method `oidc` (RFC 6749, section 4.4). It is asked for when a connection
needs it, in a thread, so that one that has expired is replaced. Neither tokens nor secrets are printed, nor sent on to
where an answer points. Every answer and every wait has a bound.

The conversation is that of RFC 7628: a broker that refuses a token says so in JSON, is answered with one byte, 1, and
fails.
"""

import base64
import contextlib
import json
import re
import ssl
import threading
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlencode, urlsplit

import attrs

from pipeline_broker.client.errors import ClientError
from pipeline_broker.files.bounded_file import read_bounded

__all__ = ["OAUTHBEARER", "TOKEN_PROPERTIES", "Bearer", "TokenSource", "read_bearer"]

OAUTHBEARER = "OAUTHBEARER"
_URL = "sasl.oauthbearer.token.endpoint.url"
_METHOD = "sasl.oauthbearer.method"
_ID = "sasl.oauthbearer.client.id"
_SECRET = "sasl.oauthbearer.client.secret"  # noqa: S105 - the name of a property
_SCOPE = "sasl.oauthbearer.scope"
_EXTENSIONS = "sasl.oauthbearer.extensions"
_AUTHORITY = "https.ca.location"
TOKEN_PROPERTIES = (_METHOD, _URL, _ID, _SECRET, _SCOPE, _EXTENSIONS, _AUTHORITY)
"""librdkafka's names."""
TOKEN_BYTES_MAX = 64 * 1024
"""Of a token, which is as much as our broker takes, and of a provider's answer."""
PROVIDER_SECONDS_MAX = 10.0
"""How long an identity provider may take for each part of its answer."""
USED_SHARE = 0.8
"""Of a token's life, after which another is asked for, as librdkafka does."""
_ERROR_LENGTH_MAX = 200
_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
"""RFC 6750, section 2.1."""
_EXTENSION = re.compile(r"(?P<name>[A-Za-z]+)=(?P<value>[\x21-\x7e \t]*)")
"""RFC 7628, section 3.1."""


class TokenSource(Protocol):
    """Where tokens come from."""

    def token(self) -> str:
        """One that is valid now, as far as can be known; may block.

        Raises:
            ClientError: there is none.
        """


@attrs.frozen(slots=True)
class TokenFile:
    """A file that somebody keeps up to date."""

    path: Path

    def token(self) -> str:
        try:
            data, _ = read_bounded(self.path, TOKEN_BYTES_MAX)
        except OSError as error:
            raise ClientError(f"the token in {self.path} cannot be read: {error.strerror or error}") from None
        return _checked(data, f"{self.path}")


@attrs.define(slots=True, eq=False, repr=False)
class TokenEndpoint:
    """An identity provider; see RFC 6749, section 4.4.

    Attributes:
        url: of its token endpoint.
        client_id, client_secret: what proves who the client is.
        scope: what the token shall be good for; "": what the provider likes.
        context: of TLS with it.
    """

    url: str
    client_id: str
    client_secret: str
    scope: str
    context: ssl.SSLContext
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _token: str = attrs.field(default="", init=False)
    _renewed_at: float = attrs.field(default=0.0, init=False)

    def token(self) -> str:
        """See TokenSource; one token serves all connections until most of its life is over."""
        with self._lock:
            if not (self._token and time.monotonic() < self._renewed_at):  # also where a life is no number (NaN)
                asked_at = time.monotonic()
                answer = self._ask()
                token, life_s = answer.get("access_token"), answer.get("expires_in")
                if not isinstance(token, str):
                    raise ClientError(f"{self.url} gave no access_token")
                self._token = _checked(token.encode(), self.url)
                self._renewed_at = asked_at + USED_SHARE * (life_s if isinstance(life_s, int | float) else 0.0)
            return self._token

    def _ask(self) -> dict[str, Any]:
        from http.client import HTTPException  # noqa: PLC0415 - for those who have such a provider
        from urllib.error import HTTPError  # noqa: PLC0415 - see above
        from urllib.request import Request  # noqa: PLC0415 - see above

        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        proof = f"{self.client_id}:{self.client_secret}"  # not quoted, as librdkafka's and, by default, Java's
        headers = {
            "Authorization": f"Basic {base64.b64encode(proof.encode()).decode()}",
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        request = Request(self.url, urlencode(form).encode(), headers)  # noqa: S310 - http and https only, see below
        try:
            with self._opener().open(request, timeout=PROVIDER_SECONDS_MAX) as response:
                return _object(response.read(TOKEN_BYTES_MAX + 1), self.url)
        except HTTPError as error:
            said = ""
            with error, contextlib.suppress(OSError, HTTPException):  # what it has said of it may be cut off
                said = _complaint(error.read(TOKEN_BYTES_MAX))
            raise ClientError(f"{self.url} gave no token: {error.code} {error.reason}{said}") from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            words = getattr(reason, "verify_message", None) or getattr(reason, "strerror", None) or reason
            raise ClientError(f"{self.url} gave no token: {words}") from None

    def _opener(self) -> Any:
        """One that follows nobody: the secret is for this address."""
        from urllib.request import HTTPRedirectHandler, HTTPSHandler, build_opener  # noqa: PLC0415 - see `_ask`

        class Stay(HTTPRedirectHandler):
            def redirect_request(self, *_: object) -> None:
                return None

        return build_opener(Stay, HTTPSHandler(context=self.context))


@attrs.frozen(slots=True)
class Bearer:
    """What a client shows in place of a name and a password.

    Attributes:
        source: of its tokens.
        extensions: names and values that go along (KIP-342).
    """

    source: TokenSource
    extensions: tuple[tuple[str, str], ...] = ()

    def converse(self) -> Generator[bytes, bytes, None]:
        """The conversation with a broker; its first step may block, for the token."""
        pairs = "".join(f"{name}={value}\x01" for name, value in self.extensions)
        refusal = yield f"n,,\x01auth=Bearer {self.source.token()}\x01{pairs}\x01".encode()
        if refusal:
            yield b"\x01"  # the broker fails the exchange now, and says so in its own words
            raise ClientError(f"the broker does not take the token{_complaint(refusal)}")


def read_bearer(properties: Mapping[str, str]) -> Bearer:
    """What librdkafka's properties say of tokens.

    Raises:
        ClientError: something is missing, contradicts itself, or is not offered.
    """
    method = properties.get(_METHOD, "oidc").lower()
    if method != "oidc":
        raise ClientError(f"{_METHOD} {method!r} is not offered: it is oidc, whose tokens are signed")
    extensions = []
    for part in filter(None, properties.get(_EXTENSIONS, "").split(",")):
        match = _EXTENSION.fullmatch(part.strip())
        if match is None or match["name"].lower() == "auth":
            raise ClientError(f"{_EXTENSIONS} is not of the form NAME=VALUE,NAME=VALUE")
        extensions.append((match["name"], match["value"]))
    return Bearer(_read_source(properties), tuple(extensions))


def _read_source(properties: Mapping[str, str]) -> TokenSource:
    url = properties.get(_URL, "")
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"} and parts.path.startswith("/"):
        idle = [name for name in (_ID, _SECRET, _SCOPE, _AUTHORITY) if name in properties]
        if idle:
            raise ClientError(f"{idle[0]} has no effect: {_URL} names a file")
        return TokenFile(Path(unquote(parts.path)))
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ClientError(
            f"OAUTHBEARER needs {_URL}: https://HOST/PATH of a token endpoint, or file:///PATH of a token"
        )
    if not properties.get(_ID) or not properties.get(_SECRET):
        raise ClientError(f"a token of {parts.netloc} needs {_ID} and {_SECRET}")
    authority = properties.get(_AUTHORITY)
    try:
        context = ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise ClientError(f"{authority}: {error.strerror or error}") from None
    return TokenEndpoint(url, properties[_ID], properties[_SECRET], properties.get(_SCOPE, ""), context)


def _checked(data: bytes, place: str) -> str:
    """The token itself; what would break the first message is none."""
    text = data.strip().decode("ascii", errors="replace")
    if len(data) > TOKEN_BYTES_MAX or not _TOKEN.fullmatch(text):
        raise ClientError(f"{place} holds no token")
    return text


def _object(data: bytes, place: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if len(data) > TOKEN_BYTES_MAX or not isinstance(found, dict):
        raise ClientError(f"{place} did not answer with an object of JSON")
    return found


def _complaint(data: bytes) -> str:
    """What JSON says of an error (RFC 6749, section 5.2; RFC 7628, section 3.2.2), as the end of a line."""
    try:
        found = json.loads(data)
        words = [str(found[name]) for name in ("error", "error_description", "status") if found.get(name)]
    except (ValueError, AttributeError, RecursionError):
        return ""
    text = "".join(letter if letter.isprintable() else " " for letter in ": ".join(words))
    return f": {text[:_ERROR_LENGTH_MAX]}" if text else ""
