"""Validation of JSON web tokens against the keys of a JWKS file.

Validation fails closed: a token is refused if no key has its `kid`, if it has no expiry, or if it contains anything
unknown that must be understood. The key determines the algorithm, never the token. RSA and elliptic curve keys verify
nothing else, so a token cannot choose `none` or use a public key as a shared secret.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.files.bounded_file import Stamp, read_bounded, stamp_of
from pipeline_broker.security.oauthbearer import BearerToken, InvalidTokenError

__all__ = ["JWKS_URL", "KeyFile", "TokenRules", "TokenValidator", "key_file_path"]

logger = logging.getLogger(__name__)

JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
FILE_BYTES_MAX = 1 << 18
"""Size of a JWKS file."""
# The event loop reads a changed file at the next login. This many keys take 3 ms.
KEYS_MAX = 100
"""Keys of a JWKS file."""
RSA_BITS_MIN = 2048
# A later expiry is probably a mistake. In milliseconds this one still fits in an int64.
EXPIRY_SECONDS_MAX = 2.0**40
# Algorithms that a key may verify, by its type and curve.
ALGORITHMS: Mapping[tuple[str, str], frozenset[str]] = {
    ("RSA", ""): frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
}
# Private parts that a file of public keys should not contain. They are dropped.
PRIVATE_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth"})


@attrs.frozen(kw_only=True)
class TokenRules:
    """Requirements on a token besides its signature, named like `sasl.oauthbearer.*`."""

    expected_issuer: str | None = None
    expected_audience: frozenset[str] = frozenset()
    clock_skew_seconds: int = 30
    sub_claim_name: str = "sub"
    scope_claim_name: str = "scope"


@attrs.frozen(repr=False)
class _Key:
    jwk: PyJWK
    algorithms: frozenset[str]


def key_file_path(url: str) -> Path:
    """Return the path in a `file:` URL.

    Raises:
        ConfigError: the URL has another scheme, another host or a relative path.
    """
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
        source = "another host or a relative path" if parts.scheme == "file" else repr(parts.scheme or url)
        raise ConfigError(
            f"{JWKS_URL}: keys are read from a local file, not from {source}. Download them, and set this property to"
            " file:///path/jwks.json"
        )
    return Path(unquote(parts.path))


class KeyFile:
    """The keys of a JWKS file by `kid`. The file is read again after it has changed; an unreadable file leaves no keys.

    Raises:
        ConfigError: the file cannot be read or has no usable key.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: Stamp = ()
        self._keys: dict[str, _Key] = {}
        try:
            self._read()
        except (OSError, ValueError) as error:
            raise ConfigError(f"{JWKS_URL}: cannot use {path}: {_reason(error)}") from None

    def find(self, key_id: str) -> _Key | None:
        """Return the key with an id in the current file; None if the id is unknown, or the file cannot be used."""
        try:
            if self._stamp != stamp_of(self._path.stat()):
                self._read()
        except (OSError, ValueError) as error:
            if self._keys:
                logger.warning("the broker refuses all tokens: no keys in %s: %s", self._path, _reason(error))
            self._keys = {}
            if isinstance(error, OSError):
                self._stamp = ()  # the same file may return; a damaged one is only read again after it has changed
        return self._keys.get(key_id)

    def _read(self) -> None:
        data, status = read_bounded(self._path, FILE_BYTES_MAX)
        # Set before parsing, so that a damaged file is not read again for each token.
        self._stamp = stamp_of(status)
        self._keys = _read_keys(data)


def _reason(error: OSError | ValueError) -> str:
    return error.strerror or "it cannot be read" if isinstance(error, OSError) else str(error)


def _read_keys(data: bytes) -> dict[str, _Key]:
    """Return the keys that can verify a signature and have a `kid`.

    Raises:
        ValueError: the file is not a list of at most KEYS_MAX keys, contains none of these keys, or a malformed, weak
            or repeated one.
    """
    try:
        listed = json.loads(data)["keys"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError("it is not a JSON object with a list of keys") from None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise ValueError(f"`keys` is not a list of at most {KEYS_MAX} keys")
    keys: dict[str, _Key] = {}
    for each in listed:
        algorithms = _algorithms_of(each)
        if not algorithms:
            continue
        if each["kid"] in keys:
            raise ValueError("two keys have the same kid")
        keys[each["kid"]] = _read_key(each, algorithms)
    if not keys:
        raise ValueError("it has no RSA or elliptic curve key for signatures with a kid")
    return keys


def _algorithms_of(key: Any) -> frozenset[str]:
    """Return the algorithms that a key may verify; empty if the key is unusable here."""
    if not isinstance(key, dict) or key.get("use", "sig") != "sig" or not isinstance(key.get("kid"), str):
        return frozenset()
    kind = str(key.get("kty"))
    algorithms = ALGORITHMS.get((kind, str(key.get("crv")) if kind == "EC" else ""), frozenset())
    return algorithms & {str(key["alg"])} if "alg" in key else algorithms


def _read_key(key: Mapping[str, Any], algorithms: frozenset[str]) -> _Key:
    public = {name: value for name, value in key.items() if name not in PRIVATE_MEMBERS}
    try:
        jwk = PyJWK(public, algorithm=min(algorithms))
    except (jwt.PyJWTError, ValueError, TypeError):
        raise ValueError("a key in it is malformed") from None
    if isinstance(jwk.key, RSAPublicKey) and jwk.key.key_size < RSA_BITS_MIN:
        raise ValueError(f"an RSA key in it has fewer than {RSA_BITS_MIN} bits")
    return _Key(jwk, algorithms)


class TokenValidator:
    """A validator of the tokens of one listener.

    Args:
        keys: keys of the trusted issuers.
        rules: requirements on the claims.
        clock_ms: wall clock, milliseconds since the epoch.
    """

    def __init__(self, keys: KeyFile, rules: TokenRules, clock_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._rules = rules
        self._clock_ms = clock_ms

    def validate(self, token: str) -> BearerToken:
        """Return the user name and the expiry that a token proves.

        Raises:
            InvalidTokenError: the token is malformed or not signed by a known key, or a claim breaks the rules.
        """
        claims = self._verified(token)
        expires_seconds = self._check_times(claims)
        self._check_parties(claims)
        _check_scope(claims.get(self._rules.scope_claim_name))
        name = claims.get(self._rules.sub_claim_name)
        if not isinstance(name, str) or not name.strip():
            raise InvalidTokenError(f"its {self._rules.sub_claim_name} is not a name")
        return BearerToken(name.strip(), int(expires_seconds * 1000))

    def _verified(self, token: str) -> Mapping[str, Any]:
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise InvalidTokenError("it is not a signed token") from None
        key_id, algorithm = header.get("kid"), header.get("alg")
        # Not every version of PyJWT refuses unknown mandatory extensions (`crit`).
        if not isinstance(key_id, str) or "crit" in header:
            raise InvalidTokenError("it has no kid, or has mandatory extensions")
        key = self._keys.find(key_id)
        if key is None:
            raise InvalidTokenError("its kid is unknown")
        # The key decides: with the token's choice an HMAC could be made with the public key.
        if algorithm not in key.algorithms:
            raise InvalidTokenError("its algorithm does not match its key")
        try:
            payload = jwt.PyJWS().decode(token, key.jwk.key, algorithms=[algorithm])
            claims = json.loads(payload)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise InvalidTokenError("its signature is wrong, or it is malformed") from None
        if not isinstance(claims, dict):
            raise InvalidTokenError("it has no claims")
        return claims

    def _check_times(self, claims: Mapping[str, Any]) -> float:
        now, skew = self._clock_ms() / 1000, self._rules.clock_skew_seconds
        expires = _number(claims, "exp")
        if expires is None or _number(claims, "iat") is None:
            raise InvalidTokenError("it lacks the time of issue (iat) or of expiry (exp)")
        # The skew tolerates clocks that differ from the identity provider's.
        if now - skew >= expires:
            raise InvalidTokenError("it has expired")
        for name in ("iat", "nbf"):
            begins = _number(claims, name)
            if begins is not None and now + skew < begins:
                raise InvalidTokenError(f"it is not valid yet ({name})")
        return expires

    def _check_parties(self, claims: Mapping[str, Any]) -> None:
        rules = self._rules
        if rules.expected_issuer is not None and claims.get("iss") != rules.expected_issuer:
            raise InvalidTokenError("it is from another issuer")
        if rules.expected_audience:
            audience = claims.get("aud")
            named = audience if isinstance(audience, list) else [audience]
            if not any(isinstance(each, str) and each in rules.expected_audience for each in named):
                raise InvalidTokenError("it is for another audience")


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    # In Python `True` is an int.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= EXPIRY_SECONDS_MAX:
        raise InvalidTokenError(f"its {name} is not a time")
    return float(value)


def _check_scope(scope: object) -> None:
    """Raise InvalidTokenError unless the scope is None, a non-blank string, or a list of distinct non-blank strings."""
    named = [scope] if isinstance(scope, str) else [] if scope is None else scope
    if not isinstance(named, list) or not all(isinstance(each, str) and each.strip() for each in named):
        raise InvalidTokenError("its scope is neither a string nor a list of strings")
    if len(set(named)) < len(named):
        raise InvalidTokenError("its scope contains a duplicate")
