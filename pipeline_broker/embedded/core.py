"""An embedded broker on its event loop: its lives, one after the other, and all that is asked of it.

Rules of this file: what is asked is done one at a time, so that nobody meets a broker between two lives; who waits for
something looks whenever a request or a commit has ended, and gives the others their turn meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from pipeline_broker.apis.request_names import names_of
from pipeline_broker.broker.group_views import group_offsets, list_groups, offset_order
from pipeline_broker.embedded.clock import AdvancedClock
from pipeline_broker.embedded.errors import EmbeddedBrokerError, WaitTimeoutError
from pipeline_broker.embedded.groups import delete_groups, describe_groups
from pipeline_broker.embedded.life import Life, Running
from pipeline_broker.embedded.ports import KeptPorts
from pipeline_broker.embedded.record_reader import RecordReader
from pipeline_broker.embedded.shown import Group, Snapshot
from pipeline_broker.files.memory_files import MemoryFiles
from pipeline_broker.node.options import ServeOptions, StartError
from pipeline_broker.telemetry.recent_requests import RecentRequests, RequestNames

if TYPE_CHECKING:
    from pipeline_broker.embedded.registry import EmbeddedRegistry
    from pipeline_broker.node.archive_store import ArchiveStore

__all__ = ["Core"]

Found = TypeVar("Found")

DRAIN_SECONDS = 0.25
"""How long a broker that is closed goes on with what is in flight: a member may be waiting for others to join."""
LOOK_AGAIN_SECONDS = 1.0
"""Whoever waits looks at least this often."""
TOPICS_ASKED_MAX = 1_000
BEHIND_MAX = 20
"""Partitions that one line names."""


class Core:
    """See the rules.

    Args:
        options: how the broker is started.
        requests_max: how many requests are remembered.
        in_memory: keep its files in memory; the data directory of the options is a name only.
        store: keep everything in this store of objects; None for files.

    Attributes:
        clock: the wall clock of the broker.
        requests: the last ones.
        topics_asked: those that the embedding program created, wrote or read in the island, the newest last.
        turn: held by whoever asks something.
    """

    def __init__(
        self, options: ServeOptions, requests_max: int, *, in_memory: bool, store: ArchiveStore | None = None
    ) -> None:
        self.clock = AdvancedClock()
        self.requests = RecentRequests(requests_max, self._changed, self._names_of)
        self.topics_asked: dict[str, None] = {}
        self.turn = trio.Lock()
        self._options = options
        self._files = MemoryFiles() if in_memory else None
        self._store = store
        self._empty: Snapshot | None = None
        self._groups_before: frozenset[str] | None = None
        self._before: Snapshot | None = None
        self._ports = KeptPorts()
        self._closing = trio.Event()
        self._changes = trio.lowlevel.ParkingLot()
        self._changes_count = 0
        self._nursery: trio.Nursery | None = None
        self._life: Life | None = None
        self._registry: EmbeddedRegistry | None = None

    def _names_of(self, request: Any) -> Callable[[], RequestNames]:
        return names_of(self.life.running.broker, request)

    def _changed(self) -> None:
        self._changes_count += 1
        if self._changes:
            self._changes.unpark_all()

    # Lives

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `close`.

        Raises:
            StartError: it cannot start.
            CommitFailedError, MaintenanceFailedError: the disk failed.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await self._begin_life()
                if self._files is not None and self._empty is None:
                    self._empty = Snapshot(self._files.copy(), 0)
                if self._registry is not None:  # of a broker that is started again
                    await nursery.start(self._registry.run)
                task_status.started()
                await self._closing.wait()
                async with self.turn:
                    await self.life.end(DRAIN_SECONDS)
                nursery.cancel_scope.cancel()
        finally:
            self._ports.close()

    async def close(self) -> None:
        """Let `run` end."""
        self._closing.set()

    def renew(self) -> None:
        """Make it ready to `run` once more when it has ended, closed or by an error of its files.

        It goes on with what there was before time went on in an island, or else with all that its files hold, as after
        a crash.
        """
        kept = self._before or self._snapshot("island")
        self._before = None
        self._files, self.clock.ahead_ms = kept.files, kept.ahead_ms
        self._closing = trio.Event()

    async def _begin_life(self) -> None:
        assert self._nursery is not None, "a life begins while `run` runs"
        life = Life(self._options, self._files, self._store, self.clock, self._ports, self.requests, self._changed)
        await self._nursery.start(life.run)
        self._life = life
        self._changed()

    @property
    def life(self) -> Life:
        """The one that there is now."""
        assert self._life is not None, "asked once it has begun"
        return self._life

    @property
    def running(self) -> Running:
        """What the broker is made of now; raises EmbeddedBrokerError where it is about to end."""
        if self._closing.is_set():
            raise EmbeddedBrokerError("the broker has ended")
        return self.life.running

    async def snapshot(self) -> Snapshot:
        """Everything that it keeps, as it is now."""
        return self._snapshot("snapshot")

    def _snapshot(self, asked: str) -> Snapshot:
        return Snapshot(self._kept(asked).copy(), self.clock.ahead_ms)

    async def restore(self, snapshot: Snapshot) -> None:
        """Begin a new life with what was kept; connections are closed.

        Raises:
            EmbeddedBrokerError: no life can begin with it; the broker has ended then.
        """
        self._kept("restore")
        self._remember()
        await self._begin_again(Snapshot(snapshot.files.copy(), snapshot.ahead_ms))

    async def _begin_again(self, snapshot: Snapshot) -> None:
        """Go on in the files of a snapshot."""
        await self.life.end(0)
        self._files = snapshot.files
        self.clock.ahead_ms = snapshot.ahead_ms
        try:
            await self._begin_life()
        except StartError as error:
            self._closing.set()
            raise EmbeddedBrokerError(f"restore: {error}") from None

    async def reset(self) -> None:
        """Begin a new life with nothing."""
        self._kept("reset")
        assert self._empty is not None, "made when the first life has begun"
        await self.restore(self._empty)
        self.requests.clear()

    async def advance(self, seconds: float) -> None:
        """Let the clock go on; see `Life.advance`."""
        self._remember()
        await self.life.advance(seconds)

    def _kept(self, asked: str) -> MemoryFiles:
        if self._store is not None:
            raise EmbeddedBrokerError(f"{asked}: a broker with a store cannot do this; start one without store=")
        if self._files is None:
            raise EmbeddedBrokerError(
                f"{asked}: a broker with a data directory cannot do this; start one without data="
            )
        return self._files

    async def serve_schema_registry(self) -> str:
        """Serve the schema registry from now on; its URL, which stays the same over all lives.

        Raises:
            EmbeddedBrokerError: a package that it needs is missing.
        """
        if self._registry is None:
            from pipeline_broker.embedded.registry import EmbeddedRegistry  # noqa: PLC0415 - for those who asked

            assert self._nursery is not None, "asked while it runs"
            registry = EmbeddedRegistry(self.turn, lambda: self.running)
            await self._nursery.start(registry.run)
            self._registry = registry
        return self._registry.url

    # Islands

    async def begin_island(self) -> None:
        """Note what `end_island` shall leave, and forget the requests so far.

        Raises:
            EmbeddedBrokerError: one has begun already, or a data directory keeps the files.
        """
        self._kept("island")
        if self._groups_before is not None:
            raise EmbeddedBrokerError("island: one has begun already, and has not ended")
        await self._commit_all()
        self._groups_before = self._group_ids()
        self.requests.clear()
        self.topics_asked.clear()

    def note_topic(self, name: str) -> None:
        """Remember that the embedding program asked for something of a topic."""
        self.topics_asked.pop(name, None)
        self.topics_asked[name] = None
        if len(self.topics_asked) > TOPICS_ASKED_MAX:
            del self.topics_asked[next(iter(self.topics_asked))]

    def _remember(self) -> None:
        """Keep what there is before time goes on, or all becomes another, for the first time in an island."""
        if self._groups_before is not None and self._before is None:
            self._before = self._snapshot("island")

    @property
    def has_island(self) -> bool:
        """Whether one has begun and not ended."""
        return self._groups_before is not None

    async def end_island(self, *, is_renewed: bool = False) -> None:
        """Put back what `advance`, `restore` and `reset` changed, and delete the groups that began meanwhile.

        A group that has members stays: they may be those of a program that goes on. Where the broker is put back it may
        have members again that have left since, and these are taken out.

        Raises:
            EmbeddedBrokerError: the broker has ended, or cannot begin again.
        """
        await self._commit_all()  # until here it may still end, and be ended once more
        groups_before, before = self._groups_before, self._before
        assert groups_before is not None, "ended once, by who has begun it"
        self._groups_before = self._before = None
        alive = {it.group_id for it in list_groups(self.running.broker) if not (it.is_empty or is_renewed)}
        if before is not None:
            await self._begin_again(before)
        ended = self._group_ids() - groups_before - alive
        if before is not None or is_renewed:
            for group_id in ended:
                self.running.broker.groups.expire_member(group_id, None, self.clock.now_ms())
            await self.life.settle()
        await delete_groups(self.running, ended, self.clock.now_ms())

    async def _commit_all(self) -> None:
        """Return when all is durable; where that has failed, wait for the end of the broker, which follows."""
        await self.life.settle()
        if self.life.running.server.committer.error is not None:
            await trio.sleep_forever()

    def _group_ids(self) -> frozenset[str]:
        return frozenset(group.group_id for group in list_groups(self.running.broker))

    # Waiting

    async def wait_until(
        self, look: Callable[[], Awaitable[Found | None]], timeout_seconds: float, missing: Callable[[], str]
    ) -> Found:
        """Look until something is found.

        Args:
            look: returns None for nothing.
            timeout_seconds: for how long.
            missing: says what there is instead.

        Raises:
            WaitTimeoutError: it was not found in time.
        """
        with trio.move_on_after(timeout_seconds):
            while True:
                count = self._changes_count
                async with self.turn:
                    found = await look()
                if found is not None:
                    return found
                if count == self._changes_count:
                    with trio.move_on_after(LOOK_AGAIN_SECONDS):
                        await self._changes.park()
        raise WaitTimeoutError(f"{missing()}, after {timeout_seconds:g} s")

    async def wait_records(
        self, topic: str, count: int, partition: int | None, timeout_seconds: float, *, is_committed: bool
    ) -> list[tuple[int, int, bytes]]:
        """The batches of a topic once it has so many records; it need not be there yet."""
        self.note_topic(topic)
        reader = RecordReader(self.running.broker, topic, partition, is_committed=is_committed)

        async def look() -> RecordReader | None:
            nonlocal reader
            if reader.broker is not self.running.broker:  # a new life
                reader = RecordReader(self.running.broker, topic, partition, is_committed=is_committed)
            await reader.read()
            return reader if reader.count >= count else None

        def missing() -> str:
            return f"the topic {topic!r} has {reader.count} of {count} records"

        return (await self.wait_until(look, timeout_seconds, missing)).batches

    async def wait_assigned(self, group_id: str, members: int, timeout_seconds: float) -> Group:
        """A group once it is stable with so many members."""
        last: list[Group] = []

        async def look() -> Group | None:
            last[:] = describe_groups(self.running, group_id)
            is_there = bool(last) and last[0].state == "Stable" and len(last[0].members) == members
            return last[0] if is_there else None

        def missing() -> str:
            if not last:
                return f"there is no group {group_id!r}"
            return f"the group {group_id!r} is {last[0].state} with {len(last[0].members)} of {members} members"

        return await self.wait_until(look, timeout_seconds, missing)

    async def wait_committed(
        self, group_id: str, wanted: Mapping[tuple[str, int], int] | None, timeout_seconds: float
    ) -> dict[tuple[str, int], int]:
        """What a group has committed, once this is at least what is wanted, or without that, all that there is."""
        behind: dict[tuple[str, int], tuple[int | None, int]] = {}

        async def look() -> dict[tuple[str, int], int] | None:
            views = sorted(group_offsets(self.running.broker, group_id), key=offset_order)
            found = {(it.topic, it.partition): it.committed for it in views if it.committed is not None}
            # of a partition without records nothing is committed, unless that is asked for by its offset
            ends = wanted or {(it.topic, it.partition): it.end for it in views if it.end}
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

        return await self.wait_until(look, timeout_seconds, missing)

    async def wait_fetching(self, topic: str, timeout_seconds: float) -> None:
        """Return when somebody waits for further records in every partition of a topic."""
        idle: list[int] = []

        async def look() -> bool | None:
            logs = self.running.broker.logs.partitions(topic)
            idle[:] = [log.partition for log in logs if not self.running.broker.fetches.is_watched(log)]
            return True if logs and not idle else None

        def missing() -> str:
            return f"no consumer fetches from {topic!r}" + (
                f", partitions {idle}" if idle else ": there is no such topic"
            )

        await self.wait_until(look, timeout_seconds, missing)
