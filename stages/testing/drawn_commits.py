"""Commits of several threads whose steps run in a random order, in virtual time."""

import functools
import itertools
import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import trio

from stages.commit_storage import CommitStorage
from stages.testing.drawn_thread import DrawnThread
from stages.testing.schedules import Schedule

if TYPE_CHECKING:
    from stages.committer import Commit, Committer

__all__ = ["Dice", "DrawnCommits"]

TURNS_MAX = 3
"""Maximum of passes of the event loop between two steps of a thread."""


class Dice(Protocol):
    """The part of the `random` module that DrawnCommits uses."""

    def randrange(self, stop: int, /) -> int: ...


class _Turn:
    """The committer's lock. A thread that waits for it pauses; the event loop steps its holder."""

    def __init__(self, executor: "DrawnCommits") -> None:
        self._executor = executor
        self._is_held = False
        self._holder: DrawnThread | None = None

    def acquire(self, blocking: bool = True) -> bool:
        thread = self._executor.running
        if thread is not None:
            thread.pause()
        while self._is_held:
            if not blocking:
                return False
            if thread is not None:
                thread.pause()
            else:
                assert self._holder is not None, "the event loop never holds the lock between calls"
                self._executor.step(self._holder)
        self._is_held, self._holder = True, thread
        return True

    def release(self) -> None:
        self._is_held, self._holder = False, None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


class _Storage(CommitStorage):
    """A storage whose threads pause before and after each write and sync."""

    def __init__(self, storage: CommitStorage, executor: "DrawnCommits") -> None:
        self._storage = storage
        self._executor = executor

    @property
    def is_synced(self) -> bool:
        return self._storage.is_synced

    def _between_pauses(self, work: Callable[[], Any]) -> Any:
        thread = self._executor.running
        if thread is None:
            return work()
        thread.pause()
        result = thread.call(work)
        thread.pause()
        return result

    def write(self, entries: Sequence[Any]) -> Any:
        return self._between_pauses(lambda: self._storage.write(entries))

    def write_nowait(self, entries: Sequence[Any]) -> Any | None:
        return self._storage.write_nowait(entries)

    def sync(self, ticket: Any) -> None:
        self._between_pauses(lambda: self._storage.sync(ticket))

    def key_of(self, entry: Any) -> Hashable:
        return self._storage.key_of(entry)

    def size_of(self, entry: Any) -> int:
        return self._storage.size_of(entry)

    def fail_waiting_writes(self) -> None:
        self._storage.fail_waiting_writes()


class DrawnCommits:
    """A `CommitExecutor` that chooses at random in which order its threads run.

    Like the threads of `stages.commit_threads`, a thread takes, writes and syncs a commit and hands it to the event
    loop. Then it takes the next one. It pauses before it takes the committer's lock, before it takes a commit, before
    and after each write and sync, and for the delay of a commit. The dice decide how far the event loop and the other
    threads run during a pause. They also decide whether the completion of a commit takes several turns.

    The same seed of the dice gives the same run: one thread runs at a time while the event loop waits for it, and calls
    of the storage run on the event loop's thread.

    Args:
        delays: seconds that commits take before their sync, one after the other, repeated.
        schedule: records starts and ends of commits.
        dice: random numbers; the `random` module, which Hypothesis seeds, by default.

    Attributes:
        running: the running thread; None while the event loop runs.
        rests: number of times that the rest of a completion was left for a later turn.
    """

    def __init__(
        self, delays: Iterable[float] = (0.0,), schedule: Schedule | None = None, dice: Dice | None = None
    ) -> None:
        self._delays = itertools.cycle(delays)
        self._schedule = schedule
        self._randrange = random.randrange if dice is None else dice.randrange
        self._committer: Committer | None = None
        self._threads: list[DrawnThread] = []
        self._is_stopped = False
        self.rests = 0
        self.ended_between_checks = 1
        self.running: DrawnThread | None = None

    def start(self, committer: "Committer") -> None:
        self._committer = committer
        committer.storage = _Storage(committer.storage, self)
        committer._turn = _Turn(self)  # type: ignore[assignment]  # noqa: SLF001 - the committer makes its lock

    def wake(self, count: int = 1) -> None:
        assert self._committer is not None
        for _ in range(min(count, self._committer.commits_in_flight - len(self._threads))):
            if self._is_stopped:
                return
            thread = DrawnThread(self._commit)
            self._threads.append(thread)
            trio.lowlevel.spawn_system_task(self._drive, thread)

    async def _drive(self, thread: DrawnThread) -> None:
        while not thread.is_over:
            if thread.seconds:
                await trio.sleep(thread.seconds)
            await self._others_run()
            if self._is_stopped:
                return
            if not thread.is_over:  # the event loop may have stepped it to get its lock
                self.step(thread)

    def step(self, thread: DrawnThread) -> None:
        self.running = thread
        try:
            thread.step()
        finally:
            self.running = None
            if thread.is_over:
                self._threads.remove(thread)

    async def _others_run(self) -> None:
        for _ in range(self._randrange(TURNS_MAX + 1)):
            await trio.lowlevel.checkpoint()

    def _commit(self, thread: DrawnThread) -> None:
        # The thread ends in the same step as its last check for work. A pause in between would lose a wake-up.
        committer = self._committer
        assert committer is not None
        while (commit := committer.begin_commit()) is not None:
            self._note("commit began", commit.number, len(commit.entries))
            thread.pause(next(self._delays))
            committer.end_commit(commit)
            self._note("commit ended", commit.number)
            thread.call(functools.partial(trio.lowlevel.spawn_system_task, self._hand_over, committer, commit))

    def _note(self, event: str, *numbers: int) -> None:
        thread = self.running
        if self._schedule is not None and thread is not None:
            schedule = self._schedule
            thread.call(lambda: schedule.note(event, *numbers))

    async def _hand_over(self, committer: "Committer", *commits: "Commit") -> None:
        await self._others_run()
        if not self._is_stopped:
            committer.complete(*commits)

    def should_yield(self) -> bool:
        if self._randrange(2):
            return False
        assert self._committer is not None
        self.rests += 1
        trio.lowlevel.spawn_system_task(self._hand_over, self._committer)
        return True

    def stop(self) -> None:
        """Stop all threads; unfinished commits never end."""
        self._is_stopped = True
        for thread in self._threads:
            thread.stop()
        self._threads.clear()
