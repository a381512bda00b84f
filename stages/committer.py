"""Batched persistence: group commit, or a commit per request.

Rules of this room: the event loop submits, threads write and sync, and one callback per commit comes back to the loop.
Commits complete in the order in which they began, whatever order their threads end in; a failed one fails everything
behind it, once, and nothing is ever written after it. The callback lets nothing escape: an exception in it would end
the event loop. What it has to end may take longer than a turn; then the rest is left for a later turn of the loop, and
every later commit waits for that.

Group commit takes all that was submitted since the last commit began; commits per request are serial per key (a
partition), as Apache Kafka's are. Where storage is slow, up to `commits_in_flight` of either run at once, group commits
at the pace of `stages.commit_pace`. Where it is fast one runs after the other: threads that wait for Python's lock, and
for each other, would cost more than the disk. Where it is faster than that, a commit runs on the loop
(`stages.commit_place`).

Longer than most files: both kinds of commit go from one line of submissions through the same states.
"""

from __future__ import annotations

import threading
import time
import typing
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from stages.commit_pace import SLOW_GROUP_NS, SLOW_REQUEST_NS, CommitPace
from stages.commit_place import CommitPlace
from stages.mode import Batching, CommitOn
from stages.response_sender import ResponseSender
from stages.timeline import now_ns

if TYPE_CHECKING:
    from stages.commit_storage import CommitStorage
    from stages.request import Final, Request

__all__ = [
    "Commit",
    "CommitExecutor",
    "CommitFailedError",
    "Committer",
    "CommitterStatistics",
    "Submission",
]

COMMIT_BYTES_MAX: typing.Final = 8 * 1024 * 1024
"""A group commit takes no further entry beyond this, so that one huge backlog does not become one huge write."""

BACKLOG_MIN: typing.Final = 3
"""With fewer commits behind one, its client waits for nothing else: see `stages.commit_threads`."""


class CommitFailedError(Exception):
    """A write or a sync failed; the storage must not be used again."""


class Submission:
    """The entries of one request, or of none, and what is to be done when they are durable."""

    __slots__ = ("entries", "on_durable", "on_ended", "request", "result", "submitted_ns")

    def __init__(
        self,
        entries: Sequence[Any],
        *,
        request: Request | None = None,
        result: Final | None = None,
        on_durable: Callable[[], None] | None = None,
        on_ended: Callable[[Submission, BaseException | None], None] | None = None,
    ) -> None:
        self.entries = entries
        self.request = request
        self.result = result
        self.on_durable = on_durable
        self.on_ended = on_ended
        self.submitted_ns = now_ns()


class Commit:
    """What one write and one sync make durable."""

    __slots__ = (
        "completed_ns",
        "durable_ns",
        "entries",
        "error",
        "is_on_loop",
        "number",
        "size_bytes",
        "started_ns",
        "submissions",
        "ticket",
        "written_ns",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.submissions: list[Submission] = []
        self.entries: list[Any] = []
        self.size_bytes = 0
        self.is_on_loop = False
        self.error: BaseException | None = None
        self.ticket: Any = None
        self.started_ns = self.written_ns = self.durable_ns = self.completed_ns = 0


class CommitterStatistics(NamedTuple):
    """The committer as it stands.

    Attributes:
        commits: commits that ended.
        entries, size_bytes: entries and bytes in them.
        duration_ns: how long they took together, each from its begin until it was durable.
        waiting: submissions that no commit took yet.
        in_flight: commits that began and did not end.
        entries_max: the most entries in one commit.
        has_failed: nothing is committed any more.
    """

    commits: int
    entries: int
    size_bytes: int
    duration_ns: int
    waiting: int
    in_flight: int
    entries_max: int
    has_failed: bool


class CommitExecutor(Protocol):
    """What runs commits: threads, or in tests a script.

    Attributes:
        ended_between_looks: after so many submissions were ended, `leaves_rest` is asked.
    """

    ended_between_looks: int

    def start(self, committer: Committer) -> None:
        """Run the commits of this committer from here on, at most its `commits_in_flight` at once."""

    def wake(self, count: int = 1) -> None:
        """So many commits could begin; called on the event loop.

        Whoever ended a commit looks again by itself: what waited for a key of that commit is its to take.
        """

    def leaves_rest(self) -> bool:
        """Whether `Committer.complete` has kept the loop for long; if so, it is called for the rest in a later turn."""

    def stop(self) -> None:
        """Commit what was submitted and end; nothing is submitted any more. Blocks until then."""


class Committer:
    """Collects submissions on the event loop and hands them out as commits.

    Args:
        storage: makes entries durable.
        batching: what one commit holds.
        commit_on: what runs a commit.
        sender: sends what commits that ended together released.
        on_commit: called on the loop with each durable commit, before its submissions end.
        on_failure: called on the loop, once, with the error of the first commit that failed.
        commits_in_flight: how many run at once, at most; may be raised later.
        pace: when a commit may begin beside others.
        delay_seconds: an injected delay, for experiments: a commit is durable no earlier than this after it was
            submitted (per request) or began (group); delays of concurrent commits overlap.
        on_completed: called on the loop with each durable commit when its submissions have ended and it has all stamps.
        on_idle: called on the loop whenever all that was submitted has ended.

    Attributes:
        place: where the next commit runs.
    """

    def __init__(
        self,
        storage: CommitStorage,
        *,
        batching: Batching,
        commit_on: CommitOn = CommitOn.AUTO,
        sender: ResponseSender,
        on_commit: Callable[[Commit], None],
        on_failure: Callable[[BaseException], None],
        commits_in_flight: int = 1,
        pace: CommitPace | None = None,
        delay_seconds: float = 0.0,
        on_completed: Callable[[Commit], None] | None = None,
        on_idle: Callable[[], object] = lambda: None,
    ) -> None:
        self.storage = storage
        self.batching = batching
        self.commits_in_flight = commits_in_flight
        self.delay_ns = int(delay_seconds * 1e9)
        self.pace = pace or CommitPace(SLOW_GROUP_NS if batching is Batching.GROUP else SLOW_REQUEST_NS)
        self._counts_bytes = self.pace.counts_bytes and batching is Batching.GROUP
        self._submitted_bytes = self._taken_bytes = 0  # the first is written on the loop, the other with the turn
        self.error: BaseException | None = None
        self._sender = sender
        self._on_commit, self._on_failure, self._on_idle = on_commit, on_failure, on_idle
        self.on_completed = on_completed
        self._executor: CommitExecutor | None = None
        self._waiting: deque[Submission] = deque()
        self._turn = threading.Lock()  # held from taking a commit until it is written: write order = commit order
        self._is_poisoned = False  # a thread saw a failure that the loop may not know of yet
        self.place = CommitPlace(batching, commit_on)
        self._is_taking = False  # a commit is between the submissions that wait and those in flight
        self._busy_keys: set[Hashable] = set()
        self._running: set[int] = set()  # numbers of commits in flight; each is added and removed by its thread
        self._last_begin_ns = 0
        self._next_number = self._next_completed = 0
        self._ended: dict[int, Commit] = {}
        self._rest: Commit | None = None  # of which some submissions have ended
        self._rest_begin = 0
        self._rest_error: BaseException | None = None
        self._ended_between_looks = self._ended_until_look = 1
        self._commits = self._entries = self._bytes = self._entries_max = self._duration_ns = 0

    def start(self, executor: CommitExecutor) -> None:
        """Use `executor` from here on."""
        self._executor = executor
        self._ended_between_looks = self._ended_until_look = executor.ended_between_looks
        executor.start(self)

    # On the event loop

    def submit(self, submission: Submission) -> None:
        """Add entries behind all that were submitted; call `start_commit` when the burst at hand is complete."""
        if self.error is not None:
            self._end(submission, self.error)
            return
        if self._counts_bytes:
            self._submitted_bytes += sum(map(self.storage.size_of, submission.entries))
        self._waiting.append(submission)

    def start_commit(self, following: int = 0) -> None:
        """Let a commit begin, if there is something to commit.

        Args:
            following: requests that wait to be handled; with any, it is called again when some of them were.
        """
        if not self._waiting or self._executor is None:
            return
        must_gather = self.place.must_gather(
            len(self._waiting), following, is_in_flight=self.is_in_flight, is_synced=self.storage.is_synced
        )
        if not must_gather and (count := self._takeable()):
            self._executor.wake(count)

    def _takeable(self) -> int:
        """How many commits could begin now; what waits for a key is taken by the thread that frees it."""
        # The thread of a commit looks again when that has ended, so a further one is needed only beside it.
        is_slow = self.pace.next_begin_ns(0) is not None
        if not is_slow and (self._running or self._is_taking):
            return 0
        if self.batching is Batching.GROUP:
            return 1
        most = self.commits_in_flight if is_slow else 1
        wanted, key_of, count = set(self._busy_keys), self.storage.key_of, 0
        for submission in tuple(self._waiting):
            count += wanted.isdisjoint(map(key_of, submission.entries))
            if count == most:
                break
            wanted.update(map(key_of, submission.entries))
        return count

    @property
    def is_backlogged(self) -> bool:
        """Commits per request run one after the other, because the storage is fast, and at least BACKLOG_MIN wait."""
        is_serial = self.batching is Batching.REQUEST and self.pace.next_begin_ns(0) is None
        return is_serial and len(self._waiting) >= BACKLOG_MIN

    @property
    def is_in_flight(self) -> bool:
        """A commit has begun and is not completed."""
        return self._is_taking or self._rest is not None or self._next_completed != self._next_number

    @property
    def is_idle(self) -> bool:
        """Nothing waits and nothing is in flight."""
        return not self._waiting and not self.is_in_flight

    def complete(self, *commits: Commit) -> None:
        """Take note that commits ended; end all whose turn has come, in order, and send the responses. Never raises."""
        self._sender.begin_burst()
        for commit in commits:
            self._ended[commit.number] = commit
        if self._rest is not None:
            self._finish(self._rest, self._rest_begin)
        while self._rest is None and (ready := self._ended.pop(self._next_completed, None)) is not None:
            self._next_completed += 1
            self._finish(ready)
        try:
            self._sender.end_burst()
        except Exception as problem:  # noqa: BLE001 - see _begin_to_finish
            self._fail(problem)
        if self.is_idle:
            self._on_idle()

    def _finish(self, commit: Commit, begin: int = 0) -> None:
        """End the submissions of a commit from one on, as far as a turn allows: the executor asks for the rest."""
        error = self._rest_error if begin else self._begin_to_finish(commit)
        self._rest = self._rest_error = None
        for submission in commit.submissions[begin:] if begin else commit.submissions:
            request = submission.request
            if request is not None and request.enqueued_ns:  # somebody observes it
                request.commit = commit.number
                request.submitted_ns = submission.submitted_ns
                request.durable_ns = commit.durable_ns
            self._end(submission, error)
            begin += 1
            self._ended_until_look -= 1
            if not self._ended_until_look:
                self._ended_until_look = self._ended_between_looks
                is_last = begin == len(commit.submissions) and not self._ended
                if not is_last and self._executor is not None and self._executor.leaves_rest():
                    self._rest, self._rest_begin, self._rest_error = commit, begin, error
                    return
        commit.completed_ns = now_ns()
        if error is None and self.on_completed is not None:
            try:
                self.on_completed(commit)
            except Exception as problem:  # noqa: BLE001 - an observer's bug must not end the event loop from in here
                self._fail(problem)

    def _begin_to_finish(self, commit: Commit) -> BaseException | None:
        """Show what is durable; why it is not."""
        error = self.error or commit.error
        if error is None:
            try:
                self._on_commit(commit)
            except Exception as problem:  # noqa: BLE001 - nothing may escape; a half-done callback acknowledges nothing
                error = problem
        if error is not None:
            self._fail(error)
            return error
        duration_ns = commit.durable_ns - commit.started_ns
        self.pace.commit_ended(duration_ns)
        alone_requests = _requests_of_one_connection(commit.submissions)
        self.place.commit_ended(duration_ns, was_on_loop=commit.is_on_loop, alone_requests=alone_requests)
        self._duration_ns += duration_ns
        self._commits += 1
        self._entries += len(commit.entries)
        self._bytes += commit.size_bytes
        self._entries_max = max(self._entries_max, len(commit.entries))
        return None

    def _fail(self, error: BaseException) -> None:
        if self.error is not None:
            return
        self.error = error
        self.storage.stop_waiting()
        with self._turn:  # a thread may be taking from what waits; a write at hand is the longest that this blocks
            waiting = list(self._waiting)
            self._waiting.clear()
        self._on_failure(error)
        for submission in waiting:
            self._end(submission, error)

    def _end(self, submission: Submission, error: BaseException | None) -> None:
        if error is None and submission.on_durable is not None:
            try:
                submission.on_durable()
            except Exception as problem:  # noqa: BLE001 - see _begin_to_finish
                error = problem
                self._fail(problem)
        if submission.on_ended is not None:
            try:
                submission.on_ended(submission, error)
            except Exception as problem:  # noqa: BLE001 - see _begin_to_finish
                self._fail(problem)

    # In the executor's threads

    def begin_commit(self, *, may_wait: bool = True) -> Commit | None:
        """Take the next commit and write it; `end_commit` comes next.

        Args:
            may_wait: whether it may wait for other threads, and its write for a disk with room, say; else None comes in
                place of that.

        Returns:
            the commit, written well or not; None when there is nothing to take, or it is not yet its time.
        """
        if not self._turn.acquire(blocking=may_wait):
            return None
        try:
            commit = self._take() if self._wait_ns() == 0 else None
            if commit is not None and commit.error is None:
                write = self.storage.write if may_wait else self.storage.write_nowait
                if not self._write(commit, write) and not may_wait:
                    self._put_back(commit)
                    return None
            if commit is not None:
                self._count(commit)
        finally:
            self._turn.release()
        return commit

    def commit_nowait(self) -> Commit | None:
        """Write and sync the next commit on the event loop; `complete` comes next.

        Returns:
            None where nothing can be taken now, or its write might wait: then a thread is to do it.
        """
        commit = None if self.delay_ns else self.begin_commit(may_wait=False)
        if commit is not None:
            commit.is_on_loop = True
            self.end_commit(commit)
        return commit

    def _count(self, commit: Commit) -> None:
        if self._counts_bytes and commit.entries:
            self._taken_bytes += commit.size_bytes
            self.pace.commit_began(commit.started_ns)

    def _put_back(self, commit: Commit) -> None:
        self._waiting.extendleft(reversed(commit.submissions))  # first: at no time it seems that nothing is left
        self._next_number -= 1
        self._running.discard(commit.number)
        if self.batching is Batching.REQUEST:
            self._busy_keys.difference_update(map(self.storage.key_of, commit.entries))

    def seconds_to_begin(self) -> float | None:
        """How long what waits must wait before it is committed beside others; None: until those end, or for nothing."""
        if not self._waiting or self._is_poisoned or self.batching is Batching.REQUEST:
            return None  # what waits for a key is taken by the thread that frees it
        wait_ns = self._wait_ns()
        return None if wait_ns is None else wait_ns / 1e9

    @property
    def is_large(self) -> bool:
        """So much waits that a thread should not sleep until its time comes, but look now."""
        return self._counts_bytes and self._wait_ns() == 0

    def _wait_ns(self) -> int | None:
        if self.batching is Batching.REQUEST or not (self._running or self._counts_bytes):
            return 0
        last_begin_ns = self._last_begin_ns if self._running else None
        return self.pace.wait_ns(now_ns(), last_begin_ns, self._submitted_bytes - self._taken_bytes)

    def end_commit(self, commit: Commit, sleep: Callable[[float], None] = time.sleep) -> None:
        """Sync a commit and wait for an injected delay; `complete` comes next."""
        if commit.error is None:
            try:
                self.storage.sync(commit.ticket)
            except BaseException as error:  # noqa: BLE001 - any failure fails the commit, an interrupt included
                commit.error = error
                self._is_poisoned = True  # at once, without the lock, which others hold to take and write more
        if self.delay_ns and commit.error is None:
            self._wait_for_delay(commit, sleep)
        commit.durable_ns = now_ns()
        if self.batching is Batching.REQUEST and commit.error is None:  # else nothing is taken any more
            self._busy_keys.difference_update(map(self.storage.key_of, commit.entries))
        self._running.discard(commit.number)

    def _write(self, commit: Commit, write: Callable[[Sequence[Any]], Any]) -> bool:
        """Whether it was written, or failed."""
        commit.started_ns = self._last_begin_ns = now_ns()
        try:
            commit.ticket = write(commit.entries)
        except BaseException as error:  # noqa: BLE001 - see end_commit
            commit.error = error
            self._is_poisoned = True
        commit.written_ns = now_ns()
        return commit.ticket is not None or commit.error is not None

    def _wait_for_delay(self, commit: Commit, sleep: Callable[[float], None]) -> None:
        began_ns = commit.started_ns if self.batching is Batching.GROUP else commit.submissions[0].submitted_ns
        remaining_ns = began_ns + self.delay_ns - now_ns()
        if remaining_ns > 0:
            sleep(remaining_ns / 1e9)

    def _take(self) -> Commit | None:
        if self._is_poisoned or not self._waiting:
            return None
        self._is_taking = True
        commit = Commit(self._next_number)
        try:
            if self.batching is Batching.GROUP:
                self._take_group(commit)
            else:
                self._take_one(commit)
        except Exception as error:  # noqa: BLE001 - entries that the storage does not know must not end the thread
            commit.error = error
            self._is_poisoned = True
            if not commit.submissions:
                commit.submissions.append(self._waiting.popleft())
        if commit.submissions:
            self._next_number += 1
            self._running.add(commit.number)
        self._is_taking = False
        return commit if commit.submissions else None

    def _take_group(self, commit: Commit) -> None:
        waiting, size_of = self._waiting, self.storage.size_of
        entries = commit.entries
        size_bytes = 0
        while waiting and size_bytes < COMMIT_BYTES_MAX:
            submission = waiting.popleft()
            commit.submissions.append(submission)
            for entry in submission.entries:
                entries.append(entry)
                size_bytes += size_of(entry)
        commit.size_bytes = size_bytes

    def _take_one(self, commit: Commit) -> None:
        """The oldest submission none of whose keys is busy or wanted by an older one; an empty one waits for all."""
        key_of = self.storage.key_of
        wanted = set(self._busy_keys)
        for index in range(len(self._waiting)):
            submission = self._waiting[index]
            keys = set(map(key_of, submission.entries))
            if not keys and wanted:
                return
            if wanted.isdisjoint(keys):
                del self._waiting[index]
                self._busy_keys |= keys
                commit.submissions.append(submission)
                commit.entries += submission.entries
                commit.size_bytes = sum(map(self.storage.size_of, commit.entries))
                return
            wanted |= keys

    def statistics(self) -> CommitterStatistics:
        return CommitterStatistics(
            commits=self._commits,
            entries=self._entries,
            size_bytes=self._bytes,
            waiting=len(self._waiting),
            in_flight=self._next_number - self._next_completed,
            duration_ns=self._duration_ns,
            entries_max=self._entries_max,
            has_failed=self.error is not None,
        )


def _requests_of_one_connection(submissions: Sequence[Submission]) -> int:
    """How many there are; 0 where not all are requests of the same connection."""
    request = submissions[0].request
    if request is None:
        return 0
    connection = request.connection
    for submission in submissions:
        if submission.request is None or submission.request.connection is not connection:
            return 0
    return len(submissions)
