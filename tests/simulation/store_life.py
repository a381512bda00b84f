"""A broker whose journal and archive are in the simulated store, and the world that has several of them at once.

Rules of this file: each life is a process on an empty machine of its own, whose threads are simulated (`threads`); the
newest one gets the connections. One that was fenced ends by itself. One that stands still runs no thread and sends its
clients nothing; what its event loop decides meanwhile is as good as decided when it goes on. A start that the store
does not let through ends, and is tried again, as a supervisor does.

Longer than most files: what a process is and what becomes of it beside others are told together.
"""

import itertools
import random
from contextlib import contextmanager
from pathlib import Path

import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.faults.faulty_store import FaultyStore
from pipeline_broker.log.archive.local.archive_place import ArchivePlace
from pipeline_broker.log.archive.objects.archive_log import log_name
from pipeline_broker.log.object_journal import object_journal
from pipeline_broker.node.archive_store import ArchiveStore
from pipeline_broker.node.data_directory import maintenance_of, open_broker
from pipeline_broker.node.errors import StartBlockedError, TakenOverError
from pipeline_broker.node.standby import wait_for_lease
from pipeline_broker.node.upkeep import WATCH_SECONDS
from pipeline_broker.objects.fenced_log import Boundary, Place, slot_name
from pipeline_broker.objects.lease import LeaseTimes
from pipeline_broker.objects.lease_keeper import CLOSE_SECONDS_MAX
from pipeline_broker.objects.slot import FENCE_SIZE
from pipeline_broker.objects.store_figures import StoreFigures
from pipeline_broker.objects.watched_store import WatchedStore
from tests.files.memory_file_system import MemoryFileSystem
from tests.simulation import threads
from tests.simulation.environment import MILLISECOND
from tests.simulation.store import TIMEOUT_SECONDS, SimulatedStore
from tests.simulation.world import Life, World
from tests.stages.sabotage import replaced

NODE = 1
LOG = f"wal/{NODE}"
OWNED_SECONDS_MAX = 15
"""Two sessions: after one that stands still the lease is claimed again."""
LEARNS_SECONDS = 2 * WATCH_SECONDS + TIMEOUT_SECONDS
"""A process that has a successor looks into the store so soon, perhaps with a request that was sent in vain before."""
SETTLES_SECONDS_MAX = 30
"""Within which a start is done and a process that was fenced ends, where the store is well."""
STARTS_MAX = 4
"""Behind all faults one is enough, unless the newest process has ended just then."""
STOP_SECONDS_MORE = CLOSE_SECONDS_MAX + 0.1
"""What a stop may take beyond its deadline: the lease; an upload that is under way is given up."""
LEAVING_SECONDS = (0.0, 0.02, 0.5, 8.0, None)
"""After which a client leaves a broker that another one goes on for; None: it stays to the end."""
REFUSALS = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""What a broker answers that cannot write now; clients try again."""
OLD_ANSWERS = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER})
"""What one answers that knows less than the clients, because they were at its successor."""


class StoreCommits:
    """A CommitExecutor whose commits run in simulated threads, as those of `stages.commit_threads`."""

    ended_between_checks = 1

    def __init__(self, process, note):
        self._process, self._note = process, note
        self._threads = []
        self._committer = None

    def start(self, committer):
        self._committer = committer

    def wake(self, count=1):
        for _ in range(min(count, self._committer.commits_in_flight - len(self._threads))):
            thread = threads.Thread(self._run)
            self._threads.append(thread)
            self._process.run_here(thread.start)

    def _run(self):
        """It ends where it finds nothing, in the same step, so that no wake is lost."""
        committer = self._committer
        while (commit := committer.begin_commit()) is not None:
            self._note("commit began", commit.number, len(commit.entries))
            committer.end_commit(commit, threads.sleep)
            self._note("commit ended", commit.number)
            self._process.spawn(self._hand_over, commit)
        self._threads.pop()

    async def _hand_over(self, commit):
        await trio.lowlevel.checkpoint()
        if not self._process.is_dead:
            self._committer.complete(commit)

    def should_yield(self):
        return False

    def stop(self):
        for thread in tuple(self._threads):
            thread.join()


class _Started:
    """The status of a task that has started once, however it ends."""

    def __init__(self, status):
        self._status, self._is_started = status, False

    def started(self):
        if not self._is_started:
            self._is_started = True
            self._status.started()


class StoreLife(Life):
    """One process; a standby takes over when the owner shows no life.

    Attributes:
        number: of the process.
        process: its threads.
    """

    def __init__(self, world, number, *, is_standby=False):
        super().__init__(world)
        self.number, self.is_standby = number, is_standby
        self.data = Path(f"/data{number}")
        self.stop_seconds_more = STOP_SECONDS_MORE + (0.0 if world.scenario.store.is_remote else 3 * TIMEOUT_SECONDS)
        self.process = threads.Process(threads.dice(f"threads {world.scenario.seed} {number}"))
        self.store = world.store.of(self.process)
        self.was_refusing = False
        self._leaving = random.Random(f"leaving {world.scenario.seed} {number}")

    async def run(self, task_status):
        threads.current_process.set(self.process)
        status = _Started(task_status)
        try:
            await super().run(status)
        except StartBlockedError:
            self.world.seen["a start was refused by the store"] += 1
            self.ended_by = "blocked"
        finally:
            self.process.kill()
            status.started()

    # The machine

    def _place(self, sight=None):
        world = self.world
        url = "s3://simulated/store" if world.scenario.store.is_remote else "memory://"
        figures = StoreFigures()
        faulty = FaultyStore(self.store)
        return ArchiveStore(
            ArchivePlace(url, NODE, "objects"), WatchedStore(faulty, figures.add), figures, faulty, sight
        )

    async def _open(self, config, ports):
        place, world = self._place(), self.world
        if self.is_standby:
            times = LeaseTimes.of(config.broker_heartbeat_interval_ms, config.broker_session_timeout_ms)
            while True:
                sight = await wait_for_lease(place.read_lease, times)
                world.takes_over(self)
                try:
                    return await self._open_here(config, ports, self._place(sight))
                except StartBlockedError:
                    world.trace.note("stands by again", self.number)
                    await trio.sleep(times.renew_seconds)
        return await self._open_here(config, ports, place)

    async def _open_here(self, config, ports, place):
        opened = await trio.to_thread.run_sync(
            lambda: open_broker(
                self.data,
                config,
                files=MemoryFileSystem(),
                ports=ports,
                randomness=self.world.randomness,
                store=place,
            ),
            abandon_on_cancel=True,
        )
        self._watch_room(opened[0].room)
        return opened

    def _watch_room(self, room):
        close = room.close

        def closed(obstacle):
            self.was_refusing = True
            self.world.seen["writes were refused"] += 1
            close(obstacle)

        room.close = closed

    def _new_commits(self):
        return StoreCommits(self.process, self.world.trace.note)

    async def _start_maintenance(self, nursery):
        maintenance = maintenance_of(self.broker, self.wiring.segment_sealed)
        await nursery.start(maintenance.run)

    async def _serve(self, task_status):
        try:
            await super()._serve(task_status)
        except* TakenOverError:
            self.ended_by = "fenced"
            for client in self.clients:
                client.cut()

    def _check_end(self):
        """It ended by itself because another one took over, and for no other reason."""
        generations = (LOG, self.journal.generation), (log_name(NODE), self.broker.logs.archive.store._log.generation)
        folders = tuple(f"{log}/{generation:020d}/" for log, generation in generations)
        objects = self.world.store.sound._objects.items()
        if not any(name.startswith(folders) and len(content) == FENCE_SIZE for name, (content, _) in objects):
            self.world.complain(f"process {self.number} ended, and nobody has taken over")

    async def _end(self):
        if self.ended_by in {"failed", "fenced"} and self.stopped_at is None:
            self._check_end()
        await super()._end()

    async def _close(self):
        await trio.to_thread.run_sync(self.broker.logs.close)

    def kill(self, *, power):
        self.ended_by = "killed"
        if self.store.in_flight:
            self.world.seen["a kill with PUTs in flight"] += 1
        self.process.kill()
        for client in self.clients:
            client.cut()
        self._scope.cancel()

    # What clients see of it

    async def connect(self, transport, plan, nursery, client):
        token = threads.current_process.set(self.process)
        try:
            await super().connect(transport, plan, nursery, client)
        finally:
            threads.current_process.reset(token)
        nursery.start_soon(self._leave, client)

    async def _leave(self, client):
        """Have a client give up waiting for a broker that another one goes on for."""
        while self.world.life is self and not client.is_over:
            await self.world.wait_for_change(client)
        seconds = self._leaving.choice(LEAVING_SECONDS)
        if seconds is None:
            return
        with trio.move_on_after(seconds):
            await client.wait_until_over()
        if not client.is_over:
            client.reset()

    async def wait_until_awake(self, client):
        while self.process.is_frozen and not client.is_ended_by_us:
            await self.world.wait_for_change(client)

    @property
    def is_latest(self):
        return self.world.life is self and not self._may_be_old

    @property
    def _may_be_old(self):
        """A start beside it has taken over, no standby, so it may answer with what it had until it learns of it."""
        journals = (life.journal for life in self.world.lives if not life.is_standby)
        return any(one is not None and one.generation > self.journal.generation for one in journals)

    def explains(self, error_code):
        if error_code in OLD_ANSWERS:
            return self._may_be_old
        return self.was_refusing and error_code in REFUSALS

    # The truth about its commits

    def check_stored(self, ticket):
        """Called when a commit is durable, as the journal says: it and all in front of it are in the store."""
        header = ticket.header
        if header is None:
            return
        objects = self.world.store.sound._objects
        for slot in range(self._stored_to(header), header.slot + 1):
            content, _ = objects.get(slot_name(LOG, Place(header.generation, slot)), (b"", None))
            is_data = len(content) > FENCE_SIZE
            if not is_data and not self.world.is_freed(Place(header.generation, slot)):
                self.world.complain(f"slot {header.slot} is confirmed, and slot {slot} is not stored")
                return
        self._stored = header.slot + 1

    _stored = 0

    def _stored_to(self, header):
        return max(self._stored, self.journal._ownership.first.slot)


class StoreWorld(World):
    """Several processes over one store.

    Attributes:
        store: the simulated one.
        standby: a process that waits to take over.
        lives: all processes, the oldest first.
    """

    retry_seconds = 0.25

    def __init__(self, scenario, parts):
        super().__init__(scenario, parts)
        self.store = SimulatedStore(scenario.store, scenario.seed, self.trace.note)
        self.seen = self.store.seen
        self.standby = None
        self.lives = []
        self._numbers = itertools.count()

    def new_life(self):
        return self._add(StoreLife(self, next(self._numbers)))

    def _add(self, life):
        self.lives.append(life)
        return life

    def begin_standby(self, nursery):
        """Have a second process wait."""
        self.standby = self._add(StoreLife(self, next(self._numbers), is_standby=True))
        nursery.start_soon(self._start, nursery, self.standby)

    async def _start(self, nursery, life):
        await nursery.start(self._live, life)
        self.changed()

    def takes_over(self, life):
        """A standby has begun to take over."""
        self.seen["a standby took over"] += 1
        self.life, self.standby = life, None
        self.changed()

    def begin_takeover(self, nursery):
        """Have a second process take over at once."""
        if self.life.is_serving:
            self.seen["a takeover from an owner that lives"] += 1
        self.life = self.new_life()
        self.changed()
        nursery.start_soon(self._start, nursery, self.life)

    def falls_to_another(self):
        """When the newest has ended: whether another process, which was faster to take over, is the one that counts."""
        serving = [life for life in self.others if life.is_serving]
        if serving:
            self.seen["of two that took over the first one won"] += 1
            self.life = serving[-1]
            self.changed()
        return bool(serving)

    def end_faults(self):
        self.store.settle()
        for life in self.lives:
            life.process.thaw()
        self.changed()

    async def wait_for_change(self, client):
        """Return when something in the world or of a client may have changed."""
        with trio.move_on_after(50 * MILLISECOND):
            await self._changed.park()

    async def wait_until_newest_ended(self):
        while not self.life.is_over:
            await self._changed.park()

    def is_freed(self, place):
        """Whether the log begins behind it."""
        boundary = self.store.sound._objects.get(f"{LOG}/boundary")
        return boundary is not None and place < Boundary.decode(boundary[0]).place

    @property
    def others(self):
        """Processes beside the newest, that have not ended."""
        return [life for life in self.lives if life is not self.life and not life.is_over]

    async def _wait_until(self, condition, what, lives):
        """Complain of processes that do not do what they do by themselves where the store is well, and end them."""
        with trio.move_on_after(SETTLES_SECONDS_MAX):
            while not condition():
                await self.wait_for_change(None)
            return
        for life in lives():
            self.complain(f"process {life.number} neither {what} nor ends")
            life.kill(power=False)
            await self.wait_until_ended(life)

    async def begin_last_life(self, nursery):
        self.end_faults()
        self.is_over = False
        for life in self.others:
            if life.server is None:  # it might still take over
                life.kill(power=False)
        self.standby = None
        await self.store.all_landed()
        for _ in range(STARTS_MAX):
            await self._wait_until(lambda: self.life.is_over or self.life.is_serving, "starts", lambda: [self.life])
            if self.life.is_over and not self.falls_to_another():
                await self.begin_life(nursery)
            await self._wait_until(
                lambda: self.life.is_over or not self.others, "finds out that another one goes on", lambda: self.others
            )
            if self.life.is_serving:
                await trio.sleep(LEARNS_SECONDS)  # so does this one, where an older process was later, or was killed
            if self.life.is_serving:
                break
        else:
            self.complain("no broker comes up although the store is well")
        if self.scenario.restarts:
            await self.stop_life()
            await self.begin_life(nursery)
        for _ in range(OWNED_SECONDS_MAX):  # another one may have had the lease, and lost the race
            if not self.life.is_serving or self.life.broker.logs.journal.is_owned():
                break
            await trio.sleep(1)


@contextmanager
def on_store(plan):
    """What a simulated store needs of the broker: waits in virtual time, and segments that are soon complete."""
    with (
        threads.drawn(),
        replaced(object_journal, "SEGMENT_ENTRIES_MAX", plan.entries_a_segment),
        replaced(object_journal, "ORIGIN_BYTES_MIN", plan.copied_bytes_min),
        replaced(object_journal, "COPIED_SHARE_MIN", 0.7),
    ):
        yield
