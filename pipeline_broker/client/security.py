"""TLS and SASL of a client, configured with librdkafka's properties.

SCRAM follows RFC 5802 without channel binding, PLAIN follows RFC 4616; OAUTHBEARER is in `bearer_tokens`.
"""

import base64
import binascii
import contextlib
import hashlib
import hmac
import re
import secrets
import ssl
from collections.abc import Generator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

import attrs

from pipeline_broker.client.bearer_tokens import OAUTHBEARER, TOKEN_PROPERTIES, Bearer, read_bearer
from pipeline_broker.client.errors import ClientError
from pipeline_broker.security.plain import PLAIN
from pipeline_broker.security.scram import (
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
    salted_password,
)
from pipeline_broker.security.short_lived_file import short_lived_file

__all__ = ["PLAINTEXT", "PROPERTIES", "ClientSecurity", "Conversation", "read_security"]

_Choice = TypeVar("_Choice")
Conversation = Generator[bytes, bytes, None]
"""A SASL exchange: yields messages for the broker, receives its answers, and returns at the end."""
ITERATIONS_MAX = 1_000_000
"""Most SCRAM hash iterations that a broker may demand."""
_NONCE_BYTES = 18
_SERVER_FIRST = re.compile(r"r=(?P<nonce>[^,]+),s=(?P<salt>[^,]+),i=(?P<iterations>\d{1,9})(?:,.*)?")
# (has TLS, has SASL) by security.protocol.
_PROTOCOLS = {
    "plaintext": (False, False),
    "ssl": (True, False),
    "sasl_plaintext": (False, True),
    "sasl_ssl": (True, True),
}
_MECHANISMS = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)
PROPERTIES = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "enable.ssl.certificate.verification",
    "ssl.endpoint.identification.algorithm",
    *TOKEN_PROPERTIES,
)
_BOOLEANS = {"true": True, "false": False}
_IDENTIFICATIONS = {"https": True, "none": False}


@attrs.frozen(slots=True, repr=False)
class ClientSecurity:
    """The security of a client's connections.

    Attributes:
        context: the TLS context; None: plaintext.
        mechanism: the SASL mechanism; None: no SASL.
        username, password: the credentials for PLAIN and SCRAM.
        bearer: the credentials for OAUTHBEARER.
    """

    context: ssl.SSLContext | None = None
    mechanism: str | None = None
    username: str = ""
    password: str = ""
    bearer: Bearer | None = None

    @property
    def name(self) -> str:
        return self.username if self.bearer is None else "the token"

    def converse(self) -> Conversation:
        """Return a new SASL exchange. With `bearer` its first step may block."""
        if self.bearer is not None:
            return self.bearer.converse()
        if self.mechanism == PLAIN:
            return _plain(self.username, self.password)
        assert self.mechanism is not None
        return _scram(SCRAM_MECHANISMS[self.mechanism], self.username, self.password)


PLAINTEXT = ClientSecurity()


def read_security(properties: Mapping[str, str]) -> ClientSecurity:
    """Read librdkafka's properties.

    Raises:
        ClientError: a name or a value is invalid, a property is missing or without effect, or a file cannot be used.
    """
    for name in properties:
        if name not in PROPERTIES:
            near = get_close_matches(name, PROPERTIES, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise ClientError(f"unknown property {name!r}{hint} Use one of {', '.join(PROPERTIES)}")
    protocol = properties.get("security.protocol", "plaintext").lower()
    has_tls, has_sasl = _chosen("security.protocol", protocol, _PROTOCOLS)
    _refuse_idle(properties, has_tls=has_tls, has_sasl=has_sasl)
    context = _context(properties) if has_tls else None
    if not has_sasl:
        return ClientSecurity(context)
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "")).upper()
    if mechanism not in _MECHANISMS:
        raise ClientError(f"sasl.mechanism {mechanism!r} is not one of {', '.join(_MECHANISMS)}")
    _refuse_of_another_mechanism(properties, mechanism)
    if mechanism == OAUTHBEARER:
        return ClientSecurity(context, mechanism, bearer=read_bearer(properties))
    username, password = (properties.get(f"sasl.{name}", "") for name in ("username", "password"))
    if not username or not password:
        raise ClientError(f"{mechanism} needs sasl.username and sasl.password. Set both")
    return ClientSecurity(context, mechanism, username, password)


def _chosen(name: str, word: str, choices: Mapping[str, _Choice]) -> _Choice:
    if word not in choices:
        raise ClientError(f"{name} {word!r} is not one of {', '.join(choices)}")
    return choices[word]


def _refuse_idle(properties: Mapping[str, str], *, has_tls: bool, has_sasl: bool) -> None:
    # With a property that is silently ignored, the client would be less secure than its user believes.
    for name in properties:
        if (name.startswith("sasl.") or name in TOKEN_PROPERTIES) and not has_sasl:
            raise ClientError(f"{name} has no effect without SASL. Set security.protocol=sasl_plaintext or sasl_ssl")
        if "ssl." in name and not has_tls:
            raise ClientError(f"{name} has no effect without TLS. Set security.protocol=ssl or sasl_ssl")


def _refuse_of_another_mechanism(properties: Mapping[str, str], mechanism: str) -> None:
    idle = ("sasl.username", "sasl.password") if mechanism == OAUTHBEARER else TOKEN_PROPERTIES
    for name in idle:
        if name in properties:
            raise ClientError(f"{name} has no effect with sasl.mechanism={mechanism}. Remove it")


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    verified = properties.get("enable.ssl.certificate.verification", "true").lower()
    identified = properties.get("ssl.endpoint.identification.algorithm", "https").lower()
    authorities, certificate, key = (properties.get(f"ssl.{name}.location") for name in ("ca", "certificate", "key"))
    if key is not None and certificate is None:
        raise ClientError("ssl.key.location needs ssl.certificate.location. Set both")
    for name, path in (("ca", authorities), ("certificate", certificate), ("key", key)):
        if path and not Path(path).is_file():
            raise ClientError(f"ssl.{name}.location: {path} is not a file. Check the path")
    is_verified = _chosen("enable.ssl.certificate.verification", verified, _BOOLEANS)
    is_identified = _chosen("ssl.endpoint.identification.algorithm", identified, _IDENTIFICATIONS)
    try:
        context = ssl.create_default_context(cafile=authorities, cadata=properties.get("ssl.ca.pem"))
        context.check_hostname = is_verified and is_identified
        context.verify_mode = ssl.CERT_REQUIRED if is_verified else ssl.CERT_NONE
        with _certificate_file(properties) as chain:
            if chain is not None:
                # Without a password OpenSSL would prompt for one on the terminal.
                context.load_cert_chain(chain, key, properties.get("ssl.key.password", ""))
    except (OSError, ValueError) as error:
        named = ", ".join(path for path in (authorities, certificate, key) if path)
        reason = getattr(error, "reason", None) or error
        place = f" in {named}" if named else ""
        raise ClientError(
            f"cannot use the certificates or the key{place}: {reason}. Check the ssl properties"
        ) from None
    return context


def _certificate_file(properties: Mapping[str, str]) -> contextlib.AbstractContextManager[str | None]:
    certificate = properties.get("ssl.certificate.pem")
    if certificate is None:
        return contextlib.nullcontext(properties.get("ssl.certificate.location"))
    # OpenSSL's wrapper in Python only accepts file names.
    return short_lived_file((properties.get("ssl.key.pem", "") + "\n" + certificate).encode())


def _plain(username: str, password: str) -> Conversation:
    yield b"\0".join((b"", username.encode(), password.encode()))


def _scram(mechanism: ScramMechanism, username: str, password: str) -> Conversation:
    nonce = base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()
    bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    server_first = (yield f"n,,{bare}".encode()).decode(errors="replace")
    match = _SERVER_FIRST.fullmatch(server_first)
    # Otherwise the answer could be a replay (RFC 5802, section 5.1).
    if match is None or not match["nonce"].startswith(nonce):
        raise ClientError("the broker's first SCRAM message is malformed")
    iterations = int(match["iterations"])
    # Few iterations would ease guessing the password from the proof; many would keep this process busy.
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ClientError(
            f"the broker demands {iterations} SCRAM iterations: this client allows {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        )
    salted = salted_password(mechanism, password, _from_base64(match["salt"]), iterations)
    # "biws" is base64 of "n,,": no channel binding.
    without_proof = f"c=biws,r={match['nonce']}"
    message = f"{bare},{server_first},{without_proof}".encode()
    credential = ScramCredential.of(mechanism, b"", iterations, salted)
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    signature = hmac.digest(hashlib.new(mechanism.hash_name, client_key).digest(), message, mechanism.hash_name)
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    server_final = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    # The server signature proves that the broker knows the password, too.
    expected = b"v=" + base64.b64encode(hmac.digest(credential.server_key, message, mechanism.hash_name))
    if not hmac.compare_digest(server_final, expected):
        raise ClientError(
            "the broker cannot prove that it knows the password: it may be an impostor. Check its address"
        )


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ClientError("the broker's SCRAM salt is not base64") from None
