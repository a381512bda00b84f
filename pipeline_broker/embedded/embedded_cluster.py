"""The public classes of the embedded cluster."""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self, TypeVar

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.embedded.arguments import SettingValue, checked_name, checked_number, setting_texts
from pipeline_broker.embedded.core import Core
from pipeline_broker.embedded.embedded_broker import EmbeddedBroker
from pipeline_broker.embedded.errors import EmbeddedBrokerError, RefusedError
from pipeline_broker.embedded.fault_rules import EmbeddedFaults
from pipeline_broker.embedded.life import Running
from pipeline_broker.embedded.lifecycle import REQUESTS_MAX
from pipeline_broker.embedded.observed import of_api
from pipeline_broker.embedded.restartable_broker import RestartableBroker
from pipeline_broker.faults.faults import Faults
from pipeline_broker.node.options import ServeOptions
from pipeline_broker.state.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pipeline_broker.state.leadership.replication import Replication
from pipeline_broker.telemetry.recent_requests import AnsweredRequest

__all__ = ["ClusterBroker", "EmbeddedCluster"]

__tracebackhide__ = True  # pytest shows the caller's line instead of this module
Result = TypeVar("Result")

BROKERS_MAX = 64
"""Each broker has threads, sockets and a journal of its own."""


FACTORS: Mapping[str, int] = {
    "default.replication.factor": 1,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
}
"""Properties on which only an embedded cluster acts, with Kafka's defaults."""


class _OnBroker(Protocol):
    def __call__(self, function: Callable[[RestartableBroker], Result], *, at_once: bool = False) -> Result: ...


class ClusterBroker:
    """One broker of an embedded cluster.

    Attributes:
        node_id: the id of the broker, from 1; broker 1 is the controller.
    """

    def __init__(self, node_id: int, on_broker: _OnBroker) -> None:
        self.node_id = node_id
        self._on_broker = on_broker

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.node_id}>"

    @property
    def addresses(self) -> Mapping[str, tuple[str, int]]:
        """The host and port that clients of each listener connect to, by listener name."""
        return self._on_broker(lambda broker: broker.addresses)

    @property
    def is_running(self) -> bool:
        """True unless the broker was stopped or its disk failed."""
        return self._on_broker(lambda broker: not broker.is_stopped)

    @functools.cached_property
    def faults(self) -> EmbeddedFaults:
        """The fault rules of this broker. Its stop removes them."""
        return EmbeddedFaults(self._on_faults)

    def _on_faults(self, function: Callable[[Sequence[Faults]], Result]) -> Result:
        return self._on_broker(lambda broker: function([broker.running.broker.faults]), at_once=True)

    def requests(self, api: str | None = None) -> list[AnsweredRequest]:
        """Return the latest requests to this broker; see `EmbeddedBroker.requests`."""
        return of_api(api, self._on_broker(lambda broker: list(broker.requests)))

    def on_loop(self, function: Callable[[Running], Result]) -> Result:
        """Call a function with the parts of this broker; see `EmbeddedBroker.on_loop`."""
        return self._on_broker(lambda broker: function(broker.running))


class EmbeddedCluster(EmbeddedBroker):
    """Several Kafka brokers inside this process that form a cluster, used like an EmbeddedBroker.

    The partitions of new topics, and the coordinators of groups and transactions, are spread over the brokers. Methods
    find the right broker, and `bootstrap_servers` names all of them::

        with EmbeddedCluster(brokers=3) as cluster:
            cluster.create_topic("orders", partitions=6, replication_factor=3)
            leader = cluster.leader_of("orders", 0)
            cluster.stop(leader)  # another replica leads its partitions
            cluster.start(leader)

    All data is in memory, and `on_loop` passes the parts of broker 1. It differs from Kafka: only broker 1 is a
    controller, all living replicas are always in sync, and share groups get COORDINATOR_NOT_AVAILABLE.

    Args:
        brokers: the number of brokers, from 2 to BROKERS_MAX.
        mode, settings, requests_max: as for EmbeddedBroker, for each broker. `node.id` cannot be set.

    Raises:
        EmbeddedBrokerError: an argument is invalid.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        mode: str = "pipelined",
        settings: Mapping[str, SettingValue] | None = None,
        requests_max: int = REQUESTS_MAX,
    ) -> None:
        if not hasattr(socket, "SO_PEERCRED"):
            raise EmbeddedBrokerError(
                "a cluster runs on Linux only: its brokers check who connects; use EmbeddedBroker"
            )
        texts = setting_texts("settings", {} if settings is None else settings)
        if "node.id" in texts:
            raise EmbeddedBrokerError("settings: the brokers of a cluster have the ids 1, 2 and so on; remove node.id")
        if not 2 <= checked_number("brokers=", brokers) <= BROKERS_MAX:
            raise EmbeddedBrokerError(
                f"brokers= needs 2 to {BROKERS_MAX}, not {brokers}; one alone is an EmbeddedBroker"
            )
        spread = dict.fromkeys(("offsets.topic.num.partitions", "transaction.state.log.num.partitions"), str(brokers))
        factors = {name: texts.pop(name) for name in FACTORS if name in texts}
        super().__init__(mode=mode, settings=spread | texts, requests_max=requests_max)
        self._replication = _replication(factors)
        self._options = [_of_broker(number, self._options[0], factors) for number in range(1, brokers + 1)]
        self.brokers = tuple(
            ClusterBroker(number, functools.partial(self._on_broker, number)) for number in range(1, brokers + 1)
        )

    def _on_broker(
        self, node_id: int, function: Callable[[RestartableBroker], Result], *, at_once: bool = False
    ) -> Result:
        call = self._on_core_at_once if at_once else self._on_core
        return call(lambda core: function(core.serving[node_id]))

    @functools.cached_property
    def faults(self) -> EmbeddedFaults:
        """The fault rules of the cluster, and of each broker.

        A rule that begins here applies at all brokers, which count its requests together. A broker that is started
        later does not have it.
        """
        return EmbeddedFaults(self._on_faults, self._check_coordinator, [broker.faults for broker in self.brokers])

    def start(self, broker: ClusterBroker | None = None) -> Self:
        """Start the cluster, or a stopped broker again, with its data and address.

        Returns once every broker knows it.

        Raises:
            EmbeddedBrokerError: the cluster or the broker runs already, or cannot start; or broker 1 is stopped, which
                the others need.
        """
        if broker is None:
            if self._thread is not None:
                raise EmbeddedBrokerError(
                    "start: the cluster was started before; pass the broker that is to start again"
                )
            return super().start()
        node_id = self._checked("start", broker)
        core = self._of_core
        self._ask(lambda: core.serving.start_one(node_id))
        return self

    def stop(self, broker: ClusterBroker) -> None:
        """Stop a broker and return once the others know it. Its data stays, and clients cannot connect to it.

        Another living replica leads each of its partitions then. Partitions without one have no leader until its start,
        and coordinators are not available. Methods that need these raise RefusedError: LEADER_NOT_AVAILABLE or
        COORDINATOR_NOT_AVAILABLE. Waits do so at their timeout. While broker 1 is stopped, topics cannot be changed,
        and no leader is elected.

        Raises:
            EmbeddedBrokerError: the broker is stopped already.
        """
        node_id = self._checked("stop", broker)
        core = self._of_core
        self._ask(lambda: core.serving.stop_one(node_id))

    def kill(self, broker: ClusterBroker) -> None:
        """Stop a broker without answers to requests in flight, whose records may be written or not; see `stop`.

        Raises:
            EmbeddedBrokerError: the broker is stopped already.
        """
        node_id = self._checked("kill", broker)
        core = self._of_core
        self._ask(lambda: core.serving.stop_one(node_id, is_killed=True))

    def move_leader(self, topic: str, partition: int, broker: ClusterBroker) -> None:
        """Have another replica lead a partition with all its records, and return once all brokers know.

        Raises:
            RefusedError: the partition does not exist, its leader is stopped, or the broker is not a living replica:
                ELIGIBLE_LEADERS_NOT_AVAILABLE.
            EmbeddedBrokerError: broker 1 is stopped.
        """
        node_id = self._checked("move_leader", broker)
        checked_name("move_leader: topic", topic)
        checked_number("move_leader: partition", partition, 0)
        core, asked = self._of_core, f"move_leader({topic!r}, {partition})"
        self._ask(lambda: core.serving.move(asked, topic, partition, node_id))

    def _checked(self, asked: str, broker: object) -> int:
        if broker not in self.brokers:
            raise EmbeddedBrokerError(f"{asked} needs an item of cluster.brokers, not {broker!r}")
        assert isinstance(broker, ClusterBroker), "checked above"
        return broker.node_id

    def leader_of(self, topic: str, partition: int) -> ClusterBroker:
        """Return the broker that leads a partition.

        Raises:
            RefusedError: the partition does not exist, or its broker is stopped: LEADER_NOT_AVAILABLE.
        """
        checked_name("leader_of: topic", topic)
        checked_number("leader_of: partition", partition)

        def find(core: Core) -> int:
            return core.serving.leader(f"leader_of({topic!r}, {partition})", topic, partition).node_id

        return self.brokers[self._on_core(find) - 1]

    def coordinator_of(self, group: str) -> ClusterBroker:
        """Return the broker that coordinates a consumer group.

        Raises:
            RefusedError: no group has been used yet, or the broker is stopped: COORDINATOR_NOT_AVAILABLE.
        """
        checked_name("coordinator_of: group", group)
        asked = f"coordinator_of({group!r})"

        def find(core: Core) -> int:
            coordinator = core.serving.coordinator(asked, group)
            if coordinator is None:
                raise RefusedError(asked, ErrorCode.COORDINATOR_NOT_AVAILABLE, "no group has been used yet")
            return coordinator.node_id

        return self.brokers[self._on_core(find) - 1]


def _replication(texts: Mapping[str, str]) -> Replication:
    factors = dict(FACTORS)
    for name, text in texts.items():
        if not text.strip().isdecimal() or not int(text):
            raise EmbeddedBrokerError(f"settings: {name} needs a number of replicas from 1, not {text!r}")
        factors[name] = int(text)
    default, offsets, transactions = factors.values()
    return Replication(default, {OFFSETS_TOPIC: offsets, TRANSACTIONS_TOPIC: transactions})


def _of_broker(node_id: int, options: ServeOptions, factors: Mapping[str, str]) -> ServeOptions:
    properties = {**options.config.properties, **factors, "node.id": str(node_id)}
    return attrs.evolve(options, config=attrs.evolve(options.config, node_id=node_id, properties=properties))
