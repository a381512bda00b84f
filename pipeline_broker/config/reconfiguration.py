"""What a running broker refuses to become, in Kafka's words.

Rules of this file: it compares the configuration that counts with the one that would count and changes neither; a
start is free to do what is refused here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.config.listeners import prefix_of, zero_refusal
from pipeline_broker.config.properties import broker_properties, refusal

if TYPE_CHECKING:
    from pipeline_broker.config.settings import BrokerConfig

__all__ = ["check_change"]

POOLS = (
    "num.io.threads",
    "num.network.threads",
    "background.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
"""The last two are pools that this broker does not have; a client is told the same of them."""


def check_change(before: BrokerConfig, after: BrokerConfig) -> None:
    """Refuse a change that a running broker cannot make.

    Raises:
        ConfigError: see the functions below.
    """
    for name in POOLS:
        old, new = (int(config.texts.get(name, broker_properties()[name].default or "1")) for config in (before, after))
        _check_thread_count(name, name, old, new)
    if after.max_connections == 0 < before.max_connections:
        raise zero_refusal("max.connections", "max.connections")
    _check_listeners(before, after)


def _check_thread_count(shown: str, name: str, old: int, new: int) -> None:
    """A number of threads is at most doubled or halved at once."""
    if new < old // 2:
        reason = f"value should be at least half the current value {old}"
    elif new > old * 2:
        reason = f"value should not be greater than double the current value {old}"
    else:
        return
    raise refusal(
        f"{shown}: {new} is not allowed: {reason}",
        f"Dynamic thread count update validation failed for {name}={new}, {reason}",
    )


def _check_listeners(before: BrokerConfig, after: BrokerConfig) -> None:
    """A listener that stays keeps its protocol; its own limits follow the rules of the general ones."""
    served = {listener.name: listener for listener in before.listener_configs}
    for listener in after.listener_configs:
        current = served.get(listener.name)
        if current is None:
            continue
        if current.security_protocol != listener.security_protocol:
            raise refusal(
                f"{listener.name}: the security protocol of a listener cannot be changed while the broker runs",
                f"Security protocol cannot be updated for existing listener ListenerName({listener.name})",
            )
        name = "num.network.threads"
        old, new = (
            config.num_network_threads if own is None else own
            for config, own in ((before, current.limit(name)), (after, listener.limit(name)))
        )
        _check_thread_count(prefix_of(listener.name) + name, name, old, new)
