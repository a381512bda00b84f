"""Loading the keys, certificates and users of a listener."""

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
    """TLS contexts and SASL mechanisms of a listener, with the properties and users that they were made from."""

    properties: Mapping[str, str]
    users: ScramUsers | None
    tls: TlsContexts | None
    offer: SaslOffer | None

    def is_for(self, config: ListenerConfig, users: ScramUsers | None) -> bool:
        """Return whether the contexts and mechanisms were made from these properties and users."""
        return self.properties == config.properties and self.users is users


def is_secured(listener: ListenerConfig) -> bool:
    """Return whether a listener uses TLS or SASL, and so needs `load`."""
    return listener.is_tls or listener.is_sasl


def load(listener: ListenerConfig, users: ScramUsers | None, current: Loaded | None) -> Loaded:
    """Load the certificates and mechanisms of a listener.

    It changes nothing, and runs in a thread: files may be slow, and checking a password may take long on purpose.

    Args:
        listener: configuration of the listener after the change.
        users: users with SCRAM credentials; None for a listener without SASL.
        current: present certificates and mechanisms. The new certificate must be compatible with the present one.

    Raises:
        ConfigError: keys, certificates, mechanisms or users cannot be used.
    """
    # A copy: if loading fails, the listener keeps its present contexts.
    tls = None if current is None else copy.copy(current.tls)
    if tls is not None:
        tls.reload(listener.properties)
    elif listener.is_tls:
        from pipeline_broker.security.tls import TlsContexts  # noqa: PLC0415 - only for TLS

        tls = TlsContexts(listener.properties)
    return Loaded(listener.properties, users, tls, None if users is None else _offer_of(listener, users))


def _offer_of(listener: ListenerConfig, users: ScramUsers) -> SaslOffer:
    from pipeline_broker.security.offer import read_offer  # noqa: PLC0415 - only for SASL

    return read_offer(listener.properties, users, wall_clock_ms, prefix_of(listener.name))
