"""TLS contexts from Kafka's `ssl.*` properties. Only TLS 1.2 and 1.3 are supported."""

from __future__ import annotations

import contextlib
import datetime as dt
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.files.bounded_file import Stamp, current_stamp
from pipeline_broker.security.certificates import alternative_names, distinguished_name, valid_until
from pipeline_broker.security.cipher_suites import TLS_13_SUITES, openssl_names
from pipeline_broker.security.pem import KeyStore, read_key_store, read_trust_store
from pipeline_broker.security.principal import ANONYMOUS, KafkaPrincipal
from pipeline_broker.security.principal_mapping import MAPPING_RULES, PrincipalMapping
from pipeline_broker.security.short_lived_file import short_lived_file

__all__ = ["NamedCertificate", "TlsContexts"]

CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
PROTOCOLS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
# Versions that Java parses but does not enable either. They are ignored beside a supported one.
UNSPOKEN = frozenset({"SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1"})
PROTOCOLS_DEFAULT = "TLSv1.2,TLSv1.3"
# Period before its expiry in which a certificate causes a warning.
RENEWAL_TIME = dt.timedelta(days=7)
LOCATIONS = ("ssl.keystore.location", "ssl.truststore.location")


@attrs.frozen
class _Loaded:
    context: ssl.SSLContext
    mapping: PrincipalMapping
    subject: str
    names: frozenset[tuple[int, bytes]]
    valid_until: dt.datetime


class TlsContexts:
    """The TLS context of one listener, and the principals of its clients' certificates.

    The constructor and the reloads read files, so call them in a thread once the broker serves. The event loop may use
    the contexts meanwhile: a reload creates another context, and replaces the present one at once.

    Args:
        settings: the listener's effective properties, without a prefix.

    Raises:
        ConfigError: a property or a file cannot be used.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)
        self._stamps = _stamps_of(self._settings)
        self._loaded = _load(self._settings)

    def context(self) -> ssl.SSLContext:
        return self._loaded.context

    def reload(self, settings: Mapping[str, str] | None = None) -> None:
        """Read the files again, with new settings if they are given.

        As in Kafka, the new certificate must be for the same names unless the settings allow otherwise. So a mistake in
        a file name cannot change the broker's identity.

        Raises:
            ConfigError: a property or a file cannot be used, or the certificate is for other names. The previous
                context stays in use.
        """
        wanted = self._settings if settings is None else dict(settings)
        # Before the files are read: a change while they are read is found by the next check.
        self._stamps = _stamps_of(wanted)
        loaded = _load(wanted)
        _check_same_owner(self._loaded, loaded, wanted)
        self._settings, self._loaded = wanted, loaded

    def reload_changed(self) -> bool:
        """Reload if a file has changed since the last attempt, and return whether that was the case.

        Raises:
            ConfigError: see `reload`.
        """
        if self._stamps == _stamps_of(self._settings):
            return False
        self.reload()
        return True

    def warning(self, now: dt.datetime) -> str | None:
        """Return a warning if the certificate has expired or expires within RENEWAL_TIME; None otherwise."""
        last = self._loaded.valid_until
        if last - now > RENEWAL_TIME:
            return None
        what = "has expired, and clients refuse it" if last < now else "expires soon"
        return f"the certificate {what} ({last:%Y-%m-%d %H:%M} UTC): renew it, and replace the file of the key store"

    def principal(self, certificate: bytes | None) -> KafkaPrincipal | None:
        """Return the principal of a client's certificate (DER), or ANONYMOUS without a certificate.

        Returns None if the connection must be closed: the certificate is malformed, or no mapping rule applies.
        """
        if certificate is None:
            return ANONYMOUS
        try:
            name = distinguished_name(certificate)
        except ValueError:
            return None
        return self._loaded.mapping.principal(name)


class NamedCertificate(TlsContexts):
    def __init__(self, option: str, path: Path) -> None:
        self._option = option  # the option that gave the file, which errors name instead of properties
        changes = {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
        with self._named():
            super().__init__({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path), **changes})

    def reload(self, settings: Mapping[str, str] | None = None) -> None:
        with self._named():
            super().reload(settings)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except ConfigError as error:
            raise ConfigError(f"{self._option}: {str(error).removeprefix('ssl.keystore.location: ')}") from None


def _stamps_of(settings: Mapping[str, str]) -> list[Stamp]:
    return [current_stamp(settings[name]) for name in LOCATIONS if settings.get(name)]


def _load(settings: Mapping[str, str]) -> _Loaded:
    store = read_key_store(settings)
    trusted = read_trust_store(settings)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A client could otherwise repeat the expensive handshake on one connection.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _set_versions_and_suites(context, settings)
    _load_key(context, store)
    _set_client_auth(context, settings, trusted)
    try:
        subject, names = distinguished_name(store.certificate), alternative_names(store.certificate)
        last = valid_until(store.certificate)
    except (ValueError, IndexError):
        raise ConfigError("the first certificate of the key store cannot be read") from None
    return _Loaded(context, PrincipalMapping(settings.get(MAPPING_RULES, "")), subject, names, last)


def _set_versions_and_suites(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    listed = _items(settings.get("ssl.enabled.protocols", PROTOCOLS_DEFAULT))
    versions = [version for version in listed if version not in UNSPOKEN] or listed
    for name, wanted in (
        ("ssl.enabled.protocols", versions),
        ("ssl.protocol", _items(settings.get("ssl.protocol", ""))),
    ):
        for version in wanted:
            if version not in PROTOCOLS and (name, version) != ("ssl.protocol", "TLS"):
                raise ConfigError(f"{name}: {version!r} is not allowed. Use TLSv1.2 or TLSv1.3")
    enabled = {PROTOCOLS[version] for version in versions} or set(PROTOCOLS.values())
    suites = _items(settings.get("ssl.cipher.suites", ""))
    if suites:
        of_tls_12 = openssl_names(suites)
        # A version without a listed suite is disabled.
        if of_tls_12:
            context.set_ciphers(":".join(of_tls_12))
        else:
            enabled.discard(ssl.TLSVersion.TLSv1_2)
        if not TLS_13_SUITES.intersection(suites):
            enabled.discard(ssl.TLSVersion.TLSv1_3)
    if not enabled:
        raise ConfigError(
            "ssl.cipher.suites: no suite belongs to a version in ssl.enabled.protocols. Add a suite, or enable its"
            " version"
        )
    context.minimum_version, context.maximum_version = min(enabled), max(enabled)


def _load_key(context: ssl.SSLContext, store: KeyStore) -> None:
    try:
        # OpenSSL's wrapper in Python only accepts file names.
        with short_lived_file((store.key + "".join(store.chain)).encode()) as path:
            # Without a password argument OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, password=lambda: store.password)
    except (ssl.SSLError, OSError, ValueError):
        raise ConfigError(
            "the key store cannot be used: the private key is not that of the first certificate, is damaged,"
            " or ssl.key.password is wrong"
        ) from None


def _set_client_auth(context: ssl.SSLContext, settings: Mapping[str, str], trusted: str | None) -> None:
    wanted = settings.get("ssl.client.auth", "none").strip().lower()
    if wanted not in CLIENT_AUTH:
        raise ConfigError(f"ssl.client.auth: {wanted!r} is not one of {', '.join(CLIENT_AUTH)}")
    if trusted is None:
        if wanted != "none":
            raise ConfigError(
                f"ssl.client.auth={wanted} needs trusted certificates. Set ssl.truststore.location or"
                " ssl.truststore.certificates"
            )
        return
    try:
        # Not as `cadata`: the ssl module holds Python's lock while it parses a text.
        with short_lived_file(trusted.encode()) as path:
            context.load_verify_locations(path)
    except (ssl.SSLError, OSError):
        raise ConfigError("the trust store cannot be used: a certificate in it is damaged") from None
    context.verify_mode = CLIENT_AUTH[wanted]
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java, trust every certificate in the trust store


def _check_same_owner(before: _Loaded, after: _Loaded, settings: Mapping[str, str]) -> None:
    if before.subject != after.subject and settings.get("ssl.allow.dn.changes", "false").lower() != "true":
        raise ConfigError(
            f"the new certificate is for {after.subject!r}, not for {before.subject!r}: set ssl.allow.dn.changes=true"
            " if this is intended"
        )
    if not before.names <= after.names and settings.get("ssl.allow.san.changes", "false").lower() != "true":
        raise ConfigError(
            "the new certificate lacks alternative names of the previous one: set ssl.allow.san.changes=true if this"
            " is intended"
        )


def _items(text: str) -> list[str]:
    return [item for item in map(str.strip, text.split(",")) if item]
