"""The embedded broker on its event loop: snapshots, islands and waits.

Longer than most files: an island undoes what all other calls do.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import trio

from pipeline_broker.broker.group_views import list_groups
from pipeline_broker.embedded.arguments import Duration, checked_name, checked_number, checked_offsets, checked_seconds
from pipeline_broker.embedded.brokers import Brokers
from pipeline_broker.embedded.clock import AdvancedClock
from pipeline_broker.embedded.errors import EmbeddedBrokerError, RefusedError, WaitTimeoutError
from pipeline_broker.embedded.groups import delete_groups, describe_group, offset_views, offsets
from pipeline_broker.embedded.life import Running
from pipeline_broker.embedded.record_reader import RecordReader
from pipeline_broker.embedded.restartable_broker import RestartableBroker
from pipeline_broker.embedded.shown import Group, Snapshot, Usage
from pipeline_broker.files.memory_files import MemoryFiles
from pipeline_broker.node.errors import StartError
from pipeline_broker.node.options import ServeOptions
from pipeline_broker.telemetry.recent_requests import AnsweredRequest

if TYPE_CHECKING:
    from pipeline_broker.embedded.registry import EmbeddedRegistry
    from pipeline_broker.node.archive_store import ArchiveStore
    from pipeline_broker.state.leadership.replication import Replication

__all__ = ["Core"]

Found = TypeVar("Found")

# Not every change calls `_changed`, so waiters also check at this interval.
POLL_SECONDS_MAX = 1.0
TOPICS_ASKED_MAX = 1_000
# The number of partitions that an error names.
BEHIND_MAX = 20


def _records(count: int) -> str:
    return f"{count} record is" if count == 1 else f"{count} records are"


class Core:
    """The broker, or the brokers of a cluster, over all runs, controlled by coroutines on their event loop.

    A run ends at `restore` and `reset`. The next one listens at the same address.

    Args:
        options: of each broker, the controller of the cluster first.
        requests_max: the number of requests to remember, of each broker.
        in_memory: keep files in memory. The data directory of `options` is then a name only.
        store: keep the data in this object store. None for files.
        replication: factors of topics in a cluster.

    Attributes:
        brokers: the brokers and the way to each.
        clock: the brokers' wall clock.
        topics_asked: the topics that this process created, wrote or read during the island, the newest last.
        turn: the lock that each call holds, so that no call sees the broker between two runs.
    """

    def __init__(
        self,
        options: Sequence[ServeOptions],
        requests_max: int,
        *,
        in_memory: bool,
        store: ArchiveStore | None = None,
        replication: Replication | None = None,
    ) -> None:
        self.clock = AdvancedClock()
        self.brokers = Brokers(
            RestartableBroker(
                each, requests_max, MemoryFiles() if in_memory else None, store, self.clock, self._changed, replication
            )
            for each in options
        )
        self.topics_asked: dict[str, None] = {}
        self.turn = trio.Lock()
        self._in_memory = in_memory
        self._store = store
        self._empty: Snapshot | None = None
        self._groups_before: frozenset[str] | None = None
        self._before: Snapshot | None = None
        self._closing = trio.Event()
        self._changes = trio.lowlevel.ParkingLot()
        self._changes_count = 0
        self._nursery: trio.Nursery | None = None
        self._registry: EmbeddedRegistry | None = None

    def _changed(self) -> None:
        self._changes_count += 1
        if self._changes:
            self._changes.unpark_all()

    # Runs of the broker

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `close`.

        Raises:
            StartError: the broker cannot start.
            CommitFailedError, MaintenanceFailedError: the disk or the store of a broker without a cluster failed, or
                another process took over; in an exception group.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(self.brokers.close_ports)
            peers = None
            if self.brokers.is_cluster:
                from pipeline_broker.embedded.peers_directory import peers_directory  # noqa: PLC0415 - as needed

                peers = stack.enter_context(peers_directory())
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await self.brokers.start(nursery, peers)
                if self._in_memory and self._empty is None:
                    self._empty = Snapshot(self._copies(), 0)
                if self._registry is not None:  # the broker was restarted
                    await nursery.start(self._registry.run)
                task_status.started()
                await self._closing.wait()
                # Let the call in progress finish.
                async with self.turn:
                    await self.brokers.end()
                nursery.cancel_scope.cancel()

    async def close(self) -> None:
        self._closing.set()

    def renew(self) -> None:
        """Prepare another `run` after this one has ended or failed.

        The next run starts with the state that an island saved before it changed the clock or the data. Otherwise it
        starts with the current files, as after a crash.
        """
        kept = self._before or self._snapshot("island")
        self._before = None
        self._take(kept)
        self._closing = trio.Event()

    @property
    def serving(self) -> Brokers:
        if self._closing.is_set():
            raise EmbeddedBrokerError("the broker has ended; start another one")
        return self.brokers

    @property
    def running(self) -> Running:
        return self.serving.running

    @property
    def all_running(self) -> list[Running]:
        return self.serving.all_running

    async def snapshot(self) -> Snapshot:
        return self._snapshot("snapshot")

    def _snapshot(self, asked: str) -> Snapshot:
        self._check_memory(asked)
        return Snapshot(self._copies(), self.clock.ahead_ms)

    def _copies(self) -> tuple[MemoryFiles, ...]:
        return tuple(each.files.copy() for each in self.brokers if each.files is not None)

    def _take(self, snapshot: Snapshot) -> None:
        for each, files in zip(self.brokers, snapshot.files, strict=True):
            each.files = files
        self.clock.return_to(snapshot.ahead_ms)

    async def restore(self, snapshot: Snapshot) -> None:
        """Restart the broker from a snapshot; connections are closed.

        Raises:
            EmbeddedBrokerError: the files are not in memory, or the snapshot is of another number of brokers; or the
                broker cannot start from the snapshot, and has ended.
        """
        self._check_memory("restore")
        if not isinstance(snapshot, Snapshot):
            raise EmbeddedBrokerError(f"restore needs the result of snapshot(), not {snapshot!r}")
        there = len(tuple(self.brokers))
        if len(snapshot.files) != there:
            raise EmbeddedBrokerError(
                f"restore: the snapshot is of {len(snapshot.files)} brokers, and here are {there}"
            )
        self._remember()
        await self._restart_from(Snapshot(tuple(files.copy() for files in snapshot.files), snapshot.ahead_ms))

    async def _restart_from(self, snapshot: Snapshot) -> None:
        await self.brokers.end(0)
        self._take(snapshot)
        try:
            await self.brokers.restart()
        except StartError as error:
            self._closing.set()
            raise EmbeddedBrokerError(f"restore: {error}") from None

    async def reset(self) -> None:
        self._check_memory("reset")
        assert self._empty is not None, "set by the first run"
        await self.restore(self._empty)
        self._forget_requests()

    async def advance(self, seconds: float) -> None:
        self._remember()
        await self.brokers.advance(self.clock, seconds)

    def _check_memory(self, asked: str) -> None:
        if self._store is not None:
            raise EmbeddedBrokerError(f"{asked}: a broker with a store cannot do this; start one without store=")
        if not self._in_memory:
            raise EmbeddedBrokerError(
                f"{asked}: a broker with a data directory cannot do this; start one without data="
            )

    def requests(self) -> list[AnsweredRequest]:
        found = [request for each in self.brokers for request in each.requests]
        return sorted(found, key=lambda request: request.completed_ns) if self.brokers.is_cluster else found

    def _forget_requests(self) -> None:
        for each in self.brokers:
            each.requests.clear()

    def usage(self) -> Usage:
        processors = [processor for running in self.all_running for processor in running.server.processors]
        connections = sum(len(processor.connections) for processor in processors)
        return Usage(connections, sum(each.files.used_bytes for each in self.brokers if each.files is not None))

    async def serve_schema_registry(self) -> str:
        """Serve the schema registry, and return its URL, which stays the same in all runs.

        Raises:
            EmbeddedBrokerError: a package of the extra `schema-registry` is missing, or the port cannot be bound.
        """
        if self._registry is None:
            from pipeline_broker.embedded.registry import EmbeddedRegistry  # noqa: PLC0415 - needs an extra

            assert self._nursery is not None, "called while the broker runs"
            registry = EmbeddedRegistry(self.turn, lambda: self.serving.controller)
            running = self.serving.controller
            registry.attach(running.broker, running.server)
            self.brokers.first.opened = registry.attach
            await self._nursery.start(registry.run)
            self._registry = registry
        return self._registry.url

    # Islands

    async def begin_island(self) -> None:
        """Note the state that `end_island` returns to, and forget the requests so far.

        Raises:
            EmbeddedBrokerError: an island is open, or the broker does not keep its files in memory.
        """
        self._check_memory("island")
        if self._groups_before is not None:
            raise EmbeddedBrokerError("island: another island is open; leave it before you enter this one")
        await self._commit_all()
        self._groups_before = self._group_ids()
        self._forget_requests()
        self.topics_asked.clear()

    def note_topic(self, name: str) -> None:
        self.topics_asked.pop(name, None)
        self.topics_asked[name] = None
        if len(self.topics_asked) > TOPICS_ASKED_MAX:
            del self.topics_asked[next(iter(self.topics_asked))]

    def _remember(self) -> None:
        # Before the first change of an island that its end must undo.
        if self._groups_before is not None and self._before is None:
            self._before = self._snapshot("island")

    @property
    def has_island(self) -> bool:
        return self._groups_before is not None

    async def end_island(self, *, is_renewed: bool = False) -> None:
        """Undo `advance`, `restore` and `reset`, and delete the groups that the island created.

        Groups with members stay, because their clients may continue after the island.

        Args:
            is_renewed: the broker has been restarted since it ended or failed, so its groups have no live members.

        Raises:
            EmbeddedBrokerError: the broker has ended, or cannot restart.
        """
        if self.brokers.are_stopped:
            await self.brokers.start_stopped()
            is_renewed = True
        # If the disk has failed, the broker ends here and the caller calls again after the restart. The state of the
        # island must stay until then.
        await self._commit_all()
        groups_before, before = self._groups_before, self._before
        assert groups_before is not None, "`begin_island` was called"
        self._groups_before = self._before = None
        groups = [it for running in self.all_running for it in list_groups(running.broker)]
        alive = {it.group_id for it in groups if not (it.is_empty or is_renewed)}
        if before is None:
            await self.brokers.start_stopped()
        else:
            await self._restart_from(before)
        ended = self._group_ids() - groups_before - alive
        if before is not None or is_renewed:
            # The restored state can contain members that have left since then.
            for running, group_id in itertools.product(self.all_running, ended):
                running.broker.groups.expire_member(group_id, None, self.clock.now_ms())
            await self.brokers.settle()
        for running in self.all_running:
            await delete_groups(running, ended, self.clock.now_ms())

    async def _commit_all(self) -> None:
        """Return once all changes are durable.

        A broker whose commit failed ends: without a cluster this cancels the call.
        """
        await self.brokers.settle()
        while any(running.server.committer.error is not None for running in self.all_running):
            await self._changes.park()

    def _group_ids(self) -> frozenset[str]:
        return frozenset(group.group_id for running in self.all_running for group in list_groups(running.broker))

    # Waiting

    async def wait_until(
        self, check: Callable[[], Awaitable[Found | None]], within: Duration, missing: Callable[[], str]
    ) -> Found:
        """Call `check` after every change until it finds something, and return that.

        Not every change is noticed, so `check` is also called every POLL_SECONDS_MAX seconds.

        Args:
            check: returns None if the condition does not hold yet, or raises RefusedError while a stopped broker hides
                whether it holds.
            missing: describes the actual state for the error.

        Raises:
            WaitTimeoutError: `check` returned None until the timeout.
            RefusedError: a broker that the condition is about was stopped at the timeout.
        """
        timeout_seconds = checked_seconds("timeout", within)
        refused: RefusedError | None = None
        with trio.move_on_after(timeout_seconds):
            while True:
                # Count before the check: a change during the check must cause another one.
                count = self._changes_count
                async with self.turn:
                    try:
                        found, refused = await check(), None
                    except RefusedError as error:  # another thread can start the broker
                        found, refused = None, error
                if found is not None:
                    return found
                if count == self._changes_count:
                    with trio.move_on_after(POLL_SECONDS_MAX):
                        await self._changes.park()
        if refused is not None:
            raise refused.after(timeout_seconds)
        raise WaitTimeoutError(f"{missing()}, after {timeout_seconds:g} s")

    def record_reader(self, topic: str, partition: int | None, *, is_committed: bool) -> RecordReader:
        brokers = [running.broker for running in self.all_running]
        return RecordReader(brokers, topic, partition, is_committed=is_committed)

    async def wait_records(
        self, asked: str, topic: str, count: int, partition: int | None, within: Duration, *, is_committed: bool
    ) -> list[tuple[int, int, bytes]]:
        self.note_topic(checked_name(f"{asked}: topic", topic))
        checked_number(f"{asked}: count", count, 0)
        if partition is not None:
            checked_number(f"{asked}: partition", partition, 0)
        reader = self.record_reader(topic, partition, is_committed=is_committed)

        async def check() -> RecordReader | RefusedError | None:
            nonlocal reader
            try:
                # The topic or the partition can be created during the wait.
                if self.serving.has(topic, partition if count else None):
                    self.serving.check_leaders(f"{asked}({topic!r})", topic, partition)
            except RefusedError as error:
                if count:
                    raise
                return error
            if reader.brokers != [running.broker for running in self.all_running]:  # one was restarted
                reader = self.record_reader(topic, partition, is_committed=is_committed)
            await reader.read()
            return reader if reader.count >= count else None

        def missing() -> str:
            return f"the topic {topic!r} has {reader.count} of {count} records"

        try:
            found: RecordReader | RefusedError = await self.wait_until(check, within, missing)
        except WaitTimeoutError as error:
            with trio.move_on_after(POLL_SECONDS_MAX):
                error.hint = await self._hint(reader, topic)
            error.args = (f"{error}{error.hint and f'; {error.hint}'}",)
            raise
        if isinstance(found, RefusedError):
            raise found
        return found.batches

    async def _hint(self, reader: RecordReader, topic: str) -> str:
        async with self.turn:
            if not self.serving.has(topic, reader.partition):
                return self.serving.missing(topic, reader.partition)
            undecided, after = await reader.count_undecided() if reader.is_committed else (0, 0)
        if not undecided + after:
            return ""
        counts = [f"{_records(undecided)} in an open transaction"] * (undecided > 0)
        return " and ".join([*counts, *[f"{_records(after)} after the start of one"] * (after > 0)])

    async def wait_assigned(self, group_id: str, members: int, within: Duration) -> Group:
        checked_name("wait_assigned: group", group_id)
        checked_number("wait_assigned: members", members, 1)
        last: Group | None = None

        async def check() -> Group | None:
            nonlocal last
            last = describe_group(f"wait_assigned({group_id!r})", self.serving, group_id)
            return last if last is not None and last.state == "Stable" and len(last.members) == members else None

        def missing() -> str:
            if last is None:
                return f"the group {group_id!r} does not exist"
            return f"the group {group_id!r} is {last.state} with {len(last.members)} of {members} members"

        return await self.wait_until(check, within, missing)

    async def wait_committed(
        self, group_id: str, wanted: Mapping[tuple[str, int], int] | None, within: Duration
    ) -> dict[tuple[str, int], int]:
        checked_name("wait_committed: group", group_id)
        if wanted is not None:
            checked_offsets("wait_committed: offsets", wanted)
        behind: dict[tuple[str, int], tuple[int | None, int]] = {}

        async def check() -> dict[tuple[str, int], int] | None:
            asked = f"wait_committed({group_id!r})"
            found = offsets(asked, self.serving, group_id)
            # Consumers commit nothing for an empty partition, so it counts only if `wanted` names it.
            ends = wanted or {
                (it.topic, it.partition): it.end for it in offset_views(asked, self.serving, group_id) if it.end
            }
            behind.clear()
            for place, end in ends.items():
                if found.get(place, -1) < end:
                    behind[place] = found.get(place), end
            return found if found and not behind else None

        def missing() -> str:
            lines = [
                f"{topic}[{partition}] {'nothing' if committed is None else committed} of {end}"
                for (topic, partition), (committed, end) in sorted(behind.items())
            ]
            return f"the group {group_id!r} has committed {', '.join(lines[:BEHIND_MAX]) or 'nothing'}"

        return await self.wait_until(check, within, missing)

    async def wait_fetching(self, topic: str, within: Duration) -> None:
        checked_name("wait_fetching: topic", topic)
        idle: list[int] = []

        async def check() -> bool | None:
            if not self.serving.has(topic, None):
                return None
            self.serving.check_leaders(f"wait_fetching({topic!r})", topic, None)
            brokers = [running.broker for running in self.all_running]
            logs = [(broker, log) for broker in brokers for log in broker.logs.partitions(topic)]
            idle[:] = [log.partition for broker, log in logs if not broker.fetches.is_watched(log)]
            return True if logs and not idle else None

        def missing() -> str:
            state = f", partitions {idle}" if idle else f": {self.serving.missing(topic, None)}"
            return f"no consumer fetches from {topic!r}{state}"

        await self.wait_until(check, within, missing)
