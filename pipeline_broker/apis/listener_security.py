"""What one listener asks of its clients: a certificate, a conversation, both or nothing; and their sessions.

Rules of this file: it is made from the properties of the listener before anything is served, so that a mistake is one
line at the start; a change replaces everything or nothing, and counts from the next connection on. A session begins
with what the connection itself proves; who has a conversation before them is nobody until it has succeeded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pipeline_broker.apis.call import Session
from pipeline_broker.security.principal import ANONYMOUS

if TYPE_CHECKING:
    import ssl

    from pipeline_broker.apis.authentication import SaslAuthenticator
    from pipeline_broker.security.offer import SaslOffer
    from pipeline_broker.security.scram_users import ScramUsers
    from pipeline_broker.security.tls import TlsContexts
    from stages.request import ConnectionHandle

__all__ = ["ListenerSecurity", "NoPrincipalError"]

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class NoPrincipalError(Exception):
    """A client showed a certificate that no mapping rule makes a user of: its connection must be closed."""


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class ListenerSecurity:
    """See the rules of this file.

    Args:
        name: of the listener.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        properties: what counts for the listener, by Kafka's names without a prefix.
        scram_users: the users that have records.
        is_privileged: whether it is the listener of the brokers themselves.
        clock_ms: wall clock, milliseconds since the epoch.

    Raises:
        ConfigError: the properties cannot be used.
    """

    def __init__(
        self,
        name: str,
        security_protocol: str,
        properties: Mapping[str, str],
        scram_users: ScramUsers,
        *,
        is_privileged: bool = False,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        assert security_protocol in PROTOCOLS, security_protocol
        self._name = name
        self._protocol = security_protocol
        self._scram_users = scram_users
        self._is_privileged = is_privileged
        self._clock_ms = clock_ms
        self._tls: TlsContexts | None = None
        if security_protocol.endswith("SSL"):
            from pipeline_broker.security.tls import TlsContexts  # noqa: PLC0415 - by listeners that need it

            self._tls = TlsContexts(properties)
        self._offer = self._read_offer(properties)

    @property
    def tls(self) -> Callable[[], ssl.SSLContext] | None:
        """What a listener asks for the context of each connection; None without TLS."""
        return None if self._tls is None else self._tls.context

    def reload(self, properties: Mapping[str, str]) -> None:
        """Let other properties count, or files that have changed, from the next connection on.

        Raises:
            ConfigError: something cannot be used; everything stays as it was.
        """
        offer = self._read_offer(properties)
        if self._tls is not None:
            self._tls.reload(properties)
        self._offer = offer

    def _read_offer(self, properties: Mapping[str, str]) -> SaslOffer | None:
        if not self._protocol.startswith("SASL"):
            return None
        from pipeline_broker.security.offer import read_offer  # noqa: PLC0415 - as above

        return read_offer(properties, self._scram_users, self._clock_ms)

    def open_session(self, connection: ConnectionHandle, transport: object) -> SaslAuthenticator | None:
        """Begin the session of a connection whose handshake is done; see `stages.listener.OpenSession`.

        Raises:
            NoPrincipalError: see the class.
        """
        session = Session(
            host=connection.peer,
            listener=self._name,
            security_protocol=self._protocol,
            is_privileged=self._is_privileged,
        )
        connection.session = session
        if self._offer is not None:
            from pipeline_broker.apis.authentication import SaslAuthenticator  # noqa: PLC0415 - as above

            return SaslAuthenticator(session, self._offer, self._clock_ms)
        if self._tls is not None:
            principal = self._tls.principal(getattr(transport, "peer_certificate", None))
            if principal is None:
                raise NoPrincipalError(f"no rule maps the certificate of {connection.peer} to a user")
            session.principal = principal
        else:
            session.principal = ANONYMOUS
        return None
