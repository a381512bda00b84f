"""The brokers of an embedded broker or cluster on one event loop: their starts and stops, and the way to each."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.embedded.clock import AdvancedClock
from pipeline_broker.embedded.elections import Elections
from pipeline_broker.embedded.errors import EmbeddedBrokerError, RefusedError
from pipeline_broker.embedded.life import Running
from pipeline_broker.embedded.restartable_broker import RestartableBroker
from pipeline_broker.node.errors import StartError
from pipeline_broker.state.internal_topics import OFFSETS_TOPIC
from pipeline_broker.state.leadership.records import PartitionKey

__all__ = ["Brokers"]

logger = logging.getLogger(__name__)

# Bounds the answers to requests in flight at a stop: a JoinGroup can wait for other members for a long time.
DRAIN_SECONDS = 0.25
# The longest wait of a start or stop until all brokers know of it.
KNOWN_SECONDS_MAX = 5.0
KNOWN_POLL_SECONDS = 0.001
SIMILARITY_MIN = 0.75  # of a suggested topic, in difflib's terms
DEADLINES_MAX = 1_000
"""`advance` runs up to this many timers one by one, and all further ones together."""


class Brokers:
    """One broker alone, or the brokers of a cluster, of which the first is the controller.

    Args:
        brokers: in the order of their ids; none of them runs yet.
    """

    def __init__(self, brokers: Iterable[RestartableBroker]) -> None:
        self._brokers = {each.node_id: each for each in brokers}
        self._first = next(iter(self._brokers.values()))
        self._nursery: trio.Nursery | None = None
        self._peers: Path | None = None
        self._elections = Elections(self._first, self._brokers) if self.is_cluster else None

    def __iter__(self) -> Iterator[RestartableBroker]:
        return iter(self._brokers.values())

    def __getitem__(self, node_id: int) -> RestartableBroker:
        return self._brokers[node_id]

    @property
    def first(self) -> RestartableBroker:
        return self._first

    @property
    def is_cluster(self) -> bool:
        return len(self._brokers) > 1

    # The way to each

    @property
    def all_running(self) -> list[Running]:
        return [each.running for each in self._up] or [self.controller]

    @property
    def _up(self) -> list[RestartableBroker]:
        return [each for each in self if not each.is_stopped]

    @property
    def running(self) -> Running:
        return self.all_running[0]

    @property
    def controller(self) -> Running:
        if self._first.is_stopped:
            raise EmbeddedBrokerError(f"broker {self._first.node_id}, the controller, is stopped; start it first")
        return self._first.running

    def leader(self, asked: str, topic: str, partition: int) -> RestartableBroker:
        """Return the leader of a partition.

        Args:
            asked: the call that the error names.

        Raises:
            RefusedError: the partition does not exist, or its leader is stopped.
        """
        self._check_known(asked, topic, partition)
        return self._serving(asked, topic, partition, ErrorCode.LEADER_NOT_AVAILABLE)

    def _serving(self, asked: str, topic: str, partition: int, otherwise: ErrorCode) -> RestartableBroker:
        # Not `leader_of`: after the end of a cluster, its brokers no longer see each other.
        node_id = self.running.broker.leadership.recorded_leader(topic, partition)
        if self._brokers[node_id].is_stopped:
            raise RefusedError(asked, otherwise, f"broker {node_id} is stopped")
        return self._brokers[node_id]

    def check_leaders(self, asked: str, topic: str, partition: int | None) -> None:
        """Check that the leader of a partition serves, or with None, those of all partitions.

        Raises:
            RefusedError: the topic or the partition does not exist, or a leader is stopped.
        """
        self._check_known(asked, topic, partition)
        if partition is not None:
            self.leader(asked, topic, partition)
        elif any(each.is_stopped for each in self):
            for number in range(self._partitions(topic)):
                self.leader(asked, topic, number)

    def _check_known(self, asked: str, topic: str, partition: int | None) -> None:
        if not self.has(topic, partition):
            raise RefusedError(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, self.missing(topic, partition))

    def _partitions(self, topic: str) -> int:
        known = self.running.broker.topics.get(topic)
        return 0 if known is None else known.partitions

    def has(self, topic: str, partition: int | None) -> bool:
        return 0 <= (partition or 0) < self._partitions(topic)

    def missing(self, topic: str, partition: int | None) -> str:
        if there := self._partitions(topic):
            return f"partition {partition} does not exist; the number of partitions is {there}"
        import difflib  # noqa: PLC0415 - only errors need it

        broker = self.running.broker
        names = [each.name for each in broker.topics.all() if each.name not in broker.reserved_topics]
        near = difflib.get_close_matches(topic, names, n=1, cutoff=SIMILARITY_MIN)
        return f"the topic does not exist{f'; did you mean {near[0]}?' if near else ''}"

    def coordinator(self, asked: str, group: str) -> RestartableBroker | None:
        """Return the coordinator of a group, or None before the first group of all.

        Raises:
            RefusedError: the coordinator is stopped.
        """
        topic = self.running.broker.groups.topic
        if not topic.exists:
            return None
        return self._serving(asked, topic.name, topic.partition_of(group), ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def check_coordinators(self, asked: str) -> None:
        topic = self.running.broker.topics.get(OFFSETS_TOPIC)
        for partition in range(0 if topic is None else topic.partitions):
            self._serving(asked, OFFSETS_TOPIC, partition, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def end_of(self, asked: str, topic: str, partition: int) -> int | None:
        if not self.has(topic, partition):
            return None
        log = self.leader(asked, topic, partition).running.broker.logs.find(topic, partition)
        return None if log is None else log.high_watermark

    # Starts and stops

    async def start(self, nursery: trio.Nursery, peers: Path | None) -> None:
        """Start all brokers, and return once each shows the others.

        Args:
            peers: the directory of the cluster's sockets; None without a cluster.

        Raises:
            StartError: a broker cannot start.
        """
        self._nursery, self._peers = nursery, peers
        for each in self:  # the others join the controller
            await each.start(nursery, peers)
        await self._wait_known()

    async def end(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        async with trio.open_nursery() as nursery:
            for each in self:
                if each is not self._first:
                    nursery.start_soon(each.end, drain_seconds)
        await self._first.end(drain_seconds)

    async def restart(self) -> None:
        assert self._nursery is not None, "called after `start`"
        await self.start(self._nursery, self._peers)

    async def stop_one(self, node_id: int, *, is_killed: bool = False) -> None:
        """Stop a broker of a cluster, and return once the others know.

        Args:
            is_killed: close the connections of its clients first, without answers to requests in flight.

        Raises:
            EmbeddedBrokerError: it is stopped already.
        """
        broker = self._brokers[node_id]
        if broker.is_stopped:
            raise EmbeddedBrokerError(f"{'kill' if is_killed else 'stop'}: broker {node_id} is stopped already")
        if is_killed:
            broker.disconnect()
        if self._elections is not None and not self._first.is_stopped:
            try:
                await self._elections.leave(node_id)
            except OSError as error:  # its partitions have no leader until its restart
                logger.warning("broker %d stops without an election: %s", node_id, error)
        await broker.end(0 if is_killed else DRAIN_SECONDS)
        broker.note_stopped()
        if self._elections is not None and not self._first.is_stopped:
            self._elections.left()
        if broker is self._first:
            # By themselves the members notice it after 2 seconds, because a restart takes less.
            for each in self._up:
                each.running.broker.controller_reached(is_reached=False)
        await self._wait_known()

    async def move(self, asked: str, topic: str, partition: int, node_id: int) -> None:
        """Have a replica lead a partition, and return once all brokers know.

        Raises:
            RefusedError: the partition or its leader is not available, or the broker is not a living replica.
            EmbeddedBrokerError: the controller is stopped, or a disk failed.
        """
        former = self.leader(asked, topic, partition)
        known = self.controller.broker.topics.get(topic)
        if former.node_id == node_id or self._elections is None or known is None:
            return
        key = PartitionKey(known.topic_id, partition)
        if self._elections.wanted(key, node_id) is None:
            replicas = self.running.broker.leadership.in_sync(topic, partition)
            problem = "is stopped" if self._brokers[node_id].is_stopped else "has no replica"
            raise RefusedError(
                asked,
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"broker {node_id} {problem}; the replicas in sync are on {replicas}",
            )
        try:
            await self._elections.move(key, node_id)
        except OSError as error:
            raise EmbeddedBrokerError(
                f"{asked}: {error}. The partition has no leader until broker {former.node_id} is restarted"
            ) from None

    async def start_one(self, node_id: int) -> None:
        """Start a stopped broker of a cluster with its data, and return once the others know.

        Raises:
            EmbeddedBrokerError: it runs, or it cannot start.
        """
        broker = self._brokers[node_id]
        if not broker.is_stopped:
            raise EmbeddedBrokerError(f"start: broker {node_id} runs already")
        if broker is not self._first:
            _ = self.controller  # the others join it
        await self._start_again(broker)
        if broker is self._first and self._elections is not None:
            await self._elections.fence_stopped()
        await self._wait_known()

    @property
    def are_stopped(self) -> bool:
        return not self._up

    async def start_stopped(self) -> None:
        for each in self:
            if each.is_stopped:
                await self._start_again(each)
        await self._wait_known()

    async def _start_again(self, broker: RestartableBroker) -> None:
        assert self._nursery is not None, "called after `start`"
        if broker.files is not None:
            broker.files = broker.files.copy()  # without the locks of a run that failed
        try:
            await broker.start(self._nursery, self._peers)
        except StartError as error:
            raise EmbeddedBrokerError(f"start: {error}") from None

    async def _wait_known(self) -> None:
        if self._first.is_stopped:  # only the controller announces the others
            return
        with trio.move_on_after(KNOWN_SECONDS_MAX):
            while not self._is_known():  # noqa: ASYNC110 - a broker announces no change of its view
                await trio.sleep(KNOWN_POLL_SECONDS)

    def _is_known(self) -> bool:
        views = [each.running.broker.leadership for each in self._up]
        return all(view.is_there(each.node_id) is not each.is_stopped for view in views for each in self)

    async def settle(self) -> None:
        for each in self._up:
            await each.current_run.settle()

    def close_ports(self) -> None:
        for each in self:
            each.close_ports()

    # Time

    async def advance(self, clock: AdvancedClock, seconds: float) -> None:
        """Move the clock forward and run expired timers, then run retention and compaction.

        Up to DEADLINES_MAX timers run one by one, each at its time.
        """
        remaining_ms = round(seconds * 1000)
        for _ in range(DEADLINES_MAX):
            deadlines = [running.broker.coordinators.next_deadline_ms() for running in self.all_running]
            # Run timers in their order: one that fires can set others, such as a rebalance after an expired session.
            deadline_ms = min((each for each in deadlines if each is not None), default=None)
            if deadline_ms is None:
                break
            step_ms = max(0, deadline_ms - clock.now_ms())
            if step_ms > remaining_ms:
                break
            remaining_ms -= step_ms
            await self._step(clock, step_ms)
        await self._step(clock, remaining_ms)
        for running in self.all_running:
            await running.maintenance.retain()
            await running.maintenance.compact()

    async def _step(self, clock: AdvancedClock, step_ms: int) -> None:
        clock.advance(step_ms)
        for running in self.all_running:
            running.broker.advance(clock.now_ms())
            running.broker.ports.wake_timer()
        await self.settle()
