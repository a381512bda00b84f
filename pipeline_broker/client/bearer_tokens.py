"""OAUTHBEARER tokens of a client: their sources, and the SASL exchange that presents them (RFC 7628).

A token comes from a file, like Java's `file:` URLs, or from the token endpoint of an identity provider. The endpoint is
used like librdkafka's `oidc` method (client credentials grant: RFC 6749, section 4.4).
"""

import json
import re
import ssl
import threading
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

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
"""librdkafka's property names."""
TOKEN_BYTES_MAX = 64 * 1024
"""Largest token, and largest response of an identity provider. Our broker accepts tokens of the same size."""
PROVIDER_SECONDS_MAX = 10.0
"""Longest wait for each read from an identity provider."""
USED_SHARE = 0.8
"""Share of a token's lifetime after which the client fetches a new one, as in librdkafka."""
_ERROR_LENGTH_MAX = 200
_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")  # RFC 6750, section 2.1
_EXTENSION = re.compile(r"(?P<name>[A-Za-z]+)=(?P<value>[\x21-\x7e \t]*)")  # RFC 7628, section 3.1


class TokenSource(Protocol):
    def token(self) -> str:
        """Return a token that is valid now, as far as the client can know. May block, so call it in a thread.

        Raises:
            ClientError: the source has no valid token, or cannot be read.
        """


@attrs.frozen(slots=True)
class TokenFile:
    """A file with a token, which another program keeps up to date."""

    path: Path

    def token(self) -> str:
        try:
            data, _ = read_bounded(self.path, TOKEN_BYTES_MAX)
        except OSError as error:
            raise ClientError(f"the token in {self.path} cannot be read: {error.strerror or error}") from None
        return _checked(data, f"{self.path}")


@attrs.define(slots=True, eq=False, repr=False)
class TokenEndpoint:
    """The token endpoint of an identity provider (RFC 6749, section 4.4). All connections share one cached token.

    Attributes:
        url: the endpoint, http or https.
        client_id, client_secret: the client's credentials.
        scope: the requested scope; "" for the provider's default.
        context: the TLS context for https.
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
        with self._lock:
            # `not (a < b)` instead of `a >= b`: a lifetime of NaN must expire at once.
            if not (self._token and time.monotonic() < self._renewed_at):
                asked_at = time.monotonic()
                answer = self._ask()
                token, life_s = answer.get("access_token"), answer.get("expires_in")
                if not isinstance(token, str):
                    raise ClientError(f"{self.url} gave no access_token. Check that this is a token endpoint")
                self._token = _checked(token.encode(), self.url)
                self._renewed_at = asked_at + USED_SHARE * (life_s if isinstance(life_s, int | float) else 0.0)
            return self._token

    def _ask(self) -> dict[str, Any]:
        from pipeline_broker.client.http_request import (  # noqa: PLC0415 - only for these users
            RequestFailedError,
            basic_authorization,
            send_request,
        )

        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        # Not URL-encoded, although RFC 6749 asks for it: librdkafka does not, nor do Java's clients by default.
        headers = {
            "Authorization": basic_authorization(self.client_id, self.client_secret),
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        try:
            response = send_request(
                self.url,
                headers,
                form=form,
                context=self.context,
                seconds_max=PROVIDER_SECONDS_MAX,
                bytes_max=TOKEN_BYTES_MAX + 1,
            )
        except RequestFailedError as error:
            raise ClientError(f"{self.url} gave no token: {error}") from None
        if not response.is_success:
            said = f"HTTP {response.status} {response.reason}{_complaint(response.body)}"
            raise ClientError(f"{self.url} gave no token: {said}")
        return _object(response.body, self.url)


@attrs.frozen(slots=True)
class Bearer:
    """The credentials of a client that authenticates with tokens.

    Attributes:
        extensions: names and values of SASL extensions (KIP-342).
    """

    source: TokenSource
    extensions: tuple[tuple[str, str], ...] = ()

    def converse(self) -> Generator[bytes, bytes, None]:
        """Return the client's side of the exchange. The first step may block to fetch a token.

        A step raises ClientError if no valid token is available, or the broker rejects the token.
        """
        pairs = "".join(f"{name}={value}\x01" for name, value in self.extensions)
        refusal = yield f"n,,\x01auth=Bearer {self.source.token()}\x01{pairs}\x01".encode()
        if refusal:
            # The client confirms the JSON error with one byte; then the broker fails the exchange (RFC 7628, 3.2.3).
            yield b"\x01"
            raise ClientError(f"the broker rejects the token{_complaint(refusal)}")


def read_bearer(properties: Mapping[str, str]) -> Bearer:
    """Read the token properties of librdkafka.

    Raises:
        ClientError: a property is missing, malformed or unsupported, two contradict each other, or the file of
            certificate authorities cannot be read.
    """
    method = properties.get(_METHOD, "oidc").lower()
    if method != "oidc":
        raise ClientError(f"{_METHOD} {method!r} is not supported. Use oidc")
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
            raise ClientError(f"{idle[0]} has no effect, because {_URL} names a file. Remove {idle[0]}")
        return TokenFile(Path(unquote(parts.path)))
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ClientError(
            f"OAUTHBEARER needs {_URL}. Set it to https://HOST/PATH of a token endpoint, or file:///PATH of a token"
        )
    if not properties.get(_ID) or not properties.get(_SECRET):
        raise ClientError(f"the token endpoint {parts.netloc} needs {_ID} and {_SECRET}. Set both")
    authority = properties.get(_AUTHORITY)
    try:
        context = ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise ClientError(f"{_AUTHORITY}: cannot read {authority}: {error.strerror or error}") from None
    return TokenEndpoint(url, properties[_ID], properties[_SECRET], properties.get(_SCOPE, ""), context)


def _checked(data: bytes, place: str) -> str:
    # A token with other characters, such as \x01, would change the structure of the first message.
    text = data.strip().decode("ascii", errors="replace")
    if len(data) > TOKEN_BYTES_MAX or not _TOKEN.fullmatch(text):
        raise ClientError(f"{place} has no valid token: a token is one word of letters, digits and -._~+/=")
    return text


def _object(data: bytes, place: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if len(data) > TOKEN_BYTES_MAX or not isinstance(found, dict):
        raise ClientError(f"{place} did not answer with a JSON object")
    return found


def _complaint(data: bytes) -> str:
    # RFC 6749, section 5.2, and RFC 7628, section 3.2.2.
    try:
        found = json.loads(data)
        words = [str(found[name]) for name in ("error", "error_description", "status") if found.get(name)]
    except (ValueError, AttributeError, RecursionError):
        return ""
    text = "".join(letter if letter.isprintable() else " " for letter in ": ".join(words))
    return f": {text[:_ERROR_LENGTH_MAX]}" if text else ""
