"""The ports of a broker: what it asks of its surroundings, as one argument, so that it is complete when it is made."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs

if TYPE_CHECKING:
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.faults.faults import Faults
    from pipeline_broker.faults.faulty_store import FaultyStore
    from pipeline_broker.faults.files import FaultyFiles
    from pipeline_broker.log.journal.entry import JournalEntry
    from pipeline_broker.objects.store_figures import StoreFigures

__all__ = ["Load", "Ports", "Submit", "wall_clock_ms"]

Submit: TypeAlias = Callable[[Sequence["JournalEntry"], Callable[[], None]], None]
"""Commits entries, then calls back."""
Load: TypeAlias = Callable[[], Callable[[], None]]
"""Opens, in a thread, the files that a configuration names; raises ConfigError if they cannot be used. The returned
function is called on the event loop just before the configuration counts."""


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _nothing(*_: object) -> None:
    """For brokers whose surroundings do not follow."""


def _not_serving(entries: Sequence[JournalEntry], on_durable: Callable[[], None]) -> None:
    raise AssertionError(f"{len(entries)} entries before the server runs, for {on_durable}")


@attrs.frozen(kw_only=True)
class Ports:
    """See the file; a broker that is opened without a server needs none of them.

    Attributes:
        clock_ms: wall clock, for what no request brings.
        wake_timer: called when `Broker.next_deadline_ms` may have become earlier.
        submit: commits entries that no request waits for.
        advertised: host and port of the broker for the clients of a listener; None where it is not advertised.
        check_config: raises ConfigError for a configuration that the surroundings cannot follow; its second argument
            are the properties that a client sets or resets. It returns a `Load` where files or keys must be opened.
        config_changed: called with the configuration when it has become another.
        ip_rates_changed: called when the quotas on new connections of addresses are others.
        fetch_parked: called when a fetch has begun to wait.
        segment_sealed, prepare_wanted, sync_wanted: see `JournalPorts`.
        faults_changed: called with the fault rules when there are some, or others.
        fault_files: the broker's files, where they take fault rules.
        fault_store: its store of objects, in the same way.
        store_figures: what it has asked that store for; None without one.
        request_queues: of the server when it starts; as many partitions has the topic of timelines.
    """

    clock_ms: Callable[[], int] = wall_clock_ms
    wake_timer: Callable[[], None] = _nothing
    submit: Submit = _not_serving
    advertised: Callable[[str], tuple[str, int] | None] = _nothing
    check_config: Callable[[BrokerConfig, Collection[str]], Load | None] = _nothing
    config_changed: Callable[[BrokerConfig], None] = _nothing
    ip_rates_changed: Callable[[], None] = _nothing
    fetch_parked: Callable[[], None] = _nothing
    segment_sealed: Callable[[], None] = _nothing
    prepare_wanted: Callable[[], None] = _nothing
    sync_wanted: Callable[[], None] = _nothing
    faults_changed: Callable[[Faults], None] = _nothing
    fault_files: FaultyFiles | None = None
    fault_store: FaultyStore | None = None
    store_figures: StoreFigures | None = None
    request_queues: int = 1
