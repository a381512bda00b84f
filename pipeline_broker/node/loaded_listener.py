"""The keys, certificates and users of one listener, loaded apart from the listener that adopts them.

Rules of this file: once a broker serves, `load` runs in a thread, since a file may be slow and a password takes as long
to try as its owner wanted. It changes nothing. What a listener does not need is not imported.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from pipeline_broker.broker.ports import wall_clock_ms
from pipeline_broker.config.listeners import ListenerConfig, prefix_of

if TYPE_CHECKING:
    from pipeline_broker.security.offer import SaslOffer
    from pipeline_broker.security.scram_users import ScramUsers
    from pipeline_broker.security.tls import TlsContexts

__all__ = ["Loaded", "is_secured", "load"]


class Loaded(NamedTuple):
    """The certificate and the mechanisms of a listener, made of these properties and users."""

    properties: Mapping[str, str]
    users: ScramUsers | None
    tls: TlsContexts | None
    offer: SaslOffer | None

    def is_for(self, config: ListenerConfig, users: ScramUsers | None) -> bool:
        """Return whether it was made of just these."""
        return self.properties == config.properties and self.users is users


def is_secured(listener: ListenerConfig) -> bool:
    """Return whether a listener needs anything loaded."""
    return listener.is_tls or listener.is_sasl


def load(listener: ListenerConfig, users: ScramUsers | None, current: Loaded | None) -> Loaded:
    """Load what a listener needs.

    Args:
        listener: as it would be.
        users: those that have records; None for a listener without SASL.
        current: its present ones; the new certificate must agree with theirs.

    Raises:
        ConfigError: keys, certificates, mechanisms or users cannot be used.
    """
    tls = None if current is None else copy.copy(current.tls)
    if tls is not None:
        tls.reload(listener.properties)
    elif listener.is_tls:
        from pipeline_broker.security.tls import TlsContexts  # noqa: PLC0415 - for TLS only

        tls = TlsContexts(listener.properties)
    return Loaded(listener.properties, users, tls, None if users is None else _offer_of(listener, users))


def _offer_of(listener: ListenerConfig, users: ScramUsers) -> SaslOffer:
    from pipeline_broker.security.offer import read_offer  # noqa: PLC0415 - for SASL only

    return read_offer(listener.properties, users, wall_clock_ms, prefix_of(listener.name))
