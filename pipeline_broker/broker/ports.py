"""The callbacks from a broker to its process."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

import attrs

if TYPE_CHECKING:
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.faults.faults import Faults
    from pipeline_broker.faults.faulty_store import FaultyStore
    from pipeline_broker.faults.files import FaultyFiles
    from pipeline_broker.log.journal.entry import JournalEntry
    from pipeline_broker.objects.store_figures import StoreFigures
    from pipeline_broker.state.leadership.records import ListenerAddress
    from pipeline_broker.state.leadership.replication import Replication
    from stages.request import Request, Result

__all__ = ["NO_PORTS", "ClusterPort", "GrantedId", "Load", "Ports", "Submit", "do_nothing", "wall_clock_ms"]

Response = TypeVar("Response")
Submit: TypeAlias = Callable[[Sequence["JournalEntry"], Callable[[], None]], None]
"""Commits entries, then calls the function."""
Load: TypeAlias = Callable[[], Callable[[], None]]
"""Opens the files that a configuration names, in a thread. Raises ConfigError if they cannot be used. The event loop
calls the returned function just before the configuration takes effect."""


class GrantedId(NamedTuple):
    """A new producer id.

    Attributes:
        entry: entry to commit before a client learns the id; None if the block of ids is durable already.
        apply: function to call once the entry is durable.
    """

    producer_id: int
    entry: JournalEntry | None = None
    apply: Callable[[], None] | None = None


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def do_nothing(*_: object) -> None: ...


def _not_serving(entries: Sequence[JournalEntry], on_durable: Callable[[], None]) -> None:
    raise AssertionError(f"{len(entries)} entries were submitted before the server runs, for {on_durable}")


class ClusterPort(Protocol):
    """The way of a broker to the controller of its cluster.

    Attributes:
        controller_id: id of the controller, which may be this broker.
        listeners: advertised addresses of this broker, by the names of listeners.
        replication: factors of topics; None if each partition has one copy.
    """

    controller_id: int
    replication: Replication | None
    listeners: Mapping[str, ListenerAddress]

    def forward(self, request: Request) -> Result:
        """Send the request of a client to the controller, and return a result that waits for the response."""

    def ask(
        self, node_id: int, request: Any, response_type: type[Response], done: Callable[[Response | None], None]
    ) -> None:
        """Send a request of this broker to another one.

        Args:
            done: called once with the response, or with None if the connection broke before it.
        """

    def when_applied(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` once all members have applied the controller's metadata, or after a short time."""

    def connection_closed(self, session: object) -> None:
        """End the forwarding of requests of a client whose connection was closed."""

    def metadata_durable(self) -> None:
        """Learn that records of the broker's own metadata log became durable."""


@attrs.frozen(kw_only=True)
class Ports:
    """Callbacks and parts that a process passes to its broker. A broker without a server needs none.

    Attributes:
        clock_ms: wall clock, for events that no request brings.
        wake_timer: called when `Broker.next_deadline_ms` may have become earlier.
        submit: commits entries that no request waits for.
        advertised: returns the host and port that clients of a listener connect to; None if it is not advertised.
        check_config: raises ConfigError if the process cannot apply a configuration. Its second argument are the
            properties that a client sets or resets. Returns a `Load` if files or keys must be opened.
        config_changed: called with each new configuration.
        ip_rates_changed: called when connection quotas of addresses change.
        fetch_parked: called when a fetch starts to wait.
        segment_sealed, prepare_wanted, sync_wanted: see `JournalPorts`.
        faults_changed: called with the fault rules when they change.
        fault_files: files of the broker to which fault rules apply.
        fault_store: object store to which fault rules apply.
        store_figures: counters of requests to the object store; None without a store.
        request_queues: number of request queues at startup. The topic of timelines gets as many partitions.
        ask_self: sends a request to this broker, and calls the function with the response, or with None if it failed.
        cluster: the way to the controller; None for a broker without a cluster.
    """

    clock_ms: Callable[[], int] = wall_clock_ms
    wake_timer: Callable[[], None] = do_nothing
    submit: Submit = _not_serving
    advertised: Callable[[str], tuple[str, int] | None] = do_nothing
    check_config: Callable[[BrokerConfig, Collection[str]], Load | None] = do_nothing
    config_changed: Callable[[BrokerConfig], None] = do_nothing
    ip_rates_changed: Callable[[], None] = do_nothing
    fetch_parked: Callable[[], None] = do_nothing
    segment_sealed: Callable[[], None] = do_nothing
    prepare_wanted: Callable[[], None] = do_nothing
    sync_wanted: Callable[[], None] = do_nothing
    faults_changed: Callable[[Faults], None] = do_nothing
    fault_files: FaultyFiles | None = None
    fault_store: FaultyStore | None = None
    store_figures: StoreFigures | None = None
    request_queues: int = 1
    ask_self: Callable[[Any, type[Any], Callable[[Any], None]], None] = do_nothing
    cluster: ClusterPort | None = None


NO_PORTS: Final = Ports()
