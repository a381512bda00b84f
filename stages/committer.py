"""Batched persistence: group commit, or one commit per request.

The event loop submits entries. An executor writes and syncs them, and one callback per commit returns to the loop.
Commits complete in the order in which they started, whatever order they end in.

Longer than most files: both kinds of commit take from one queue of submissions and pass through the same states.

Counterpart in AutoMQ: confirm offset callbacks; one callback returns a whole commit to the event loop.
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
"""Size at which a group commit takes no further submission, so that a huge backlog does not become one huge write."""

BACKLOG_MIN: typing.Final = 3
"""Waiting submissions that make a backlog, whose commits are handed over together (`stages.commit_threads`)."""


class CommitFailedError(Exception):
    """A write or a sync failed; the storage must not be used again."""


class Submission:
    """The entries of one request, or of a task, and the callbacks of their commit.

    Args:
        request: the request whose slot they complete; None for a task.
        result: result of that slot.
        on_durable: called on the event loop once the entries are durable.
        on_ended: called on the event loop after that, or after a failure, with this submission and the error or None.
    """

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
    """The submissions that one write and one sync make durable."""

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
    """Statistics of a committer.

    Attributes:
        commits: completed commits.
        entries, size_bytes: entries in completed commits, and their bytes.
        duration_ns: sum of the times of completed commits, each from its start until it was durable.
        waiting: submissions that no commit has taken.
        in_flight: commits that started and have not completed.
        entries_max: most entries in one commit.
        has_failed: whether a commit failed, after which nothing is committed.
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
    """An executor of commits: threads, or a script in tests.

    Attributes:
        ended_between_checks: completed submissions between two calls of `should_yield`.
    """

    ended_between_checks: int

    def start(self, committer: Committer) -> None:
        """Run the commits of this committer from now on, at most `committer.commits_in_flight` at once."""

    def wake(self, count: int = 1) -> None:
        """Start up to `count` commits; called on the event loop.

        After a commit the executor checks for work without being woken. Submissions that wait for a key of that commit
        are taken then.
        """

    def should_yield(self) -> bool:
        """Return True if `Committer.complete` has blocked the event loop for long and should stop here.

        The executor then calls `complete` again in a later turn, for the rest.
        """

    def stop(self) -> None:
        """Block until everything submitted is committed, and end. Nothing may be submitted after this call."""


class Committer:
    """The submissions on the event loop, handed out as commits.

    Commits per request are serial per key (a partition), as in Apache Kafka. On slow storage, up to `commits_in_flight`
    commits of either kind run at once, group commits at the pace of `stages.commit_pace`. On fast storage they run one
    after the other: threads that wait for Python's lock, and for each other, would cost more than the disk.

    Invariants:

    * A failed commit fails all later ones, once, and nothing is written after it.
    * No exception escapes from `complete`: it runs as a callback of the event loop, which would end.
    * Completing a commit may take several turns; all later commits wait for its rest.

    Args:
        storage: makes entries durable.
        batching: scope of one commit.
        commit_on: whether commits run on the event loop or in a thread.
        sender: sends the responses that a call of `complete` has released.
        on_commit: called on the loop with each durable commit, before its submissions end.
        on_failure: called on the loop, once, with the error of the first failed commit.
        commits_in_flight: maximum of concurrent commits; may be raised later.
        pace: decides when a commit starts beside others; learned from commit times by default.
        delay_seconds: injected delay for experiments. A commit is durable no earlier than this after its submission
            (per request) or its start (group). Delays of concurrent commits overlap.
        on_completed: called on the loop with each durable commit once its submissions have ended and all its stamps are
            set.
        on_idle: called on the loop whenever everything submitted has ended.

    Attributes:
        place: decides where the next commit runs.
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
        self._submitted_bytes = self._taken_bytes = 0  # written by the event loop, and by the holder of `_turn`
        self.error: BaseException | None = None
        self._sender = sender
        self._on_commit, self._on_failure, self._on_idle = on_commit, on_failure, on_idle
        self.on_completed = on_completed
        self._executor: CommitExecutor | None = None
        self._waiting: deque[Submission] = deque()
        self._turn = threading.Lock()  # held from taking a commit until it is written: write order = commit order
        self._is_poisoned = False  # a thread saw a failure that the event loop may not know of yet
        self.place = CommitPlace(batching, commit_on)
        self._is_taking = False  # a commit has left `_waiting` and is not in `_running` yet
        self._busy_keys: set[Hashable] = set()
        self._running: set[int] = set()  # numbers of commits in flight; its thread adds and removes each
        self._last_begin_ns = 0
        self._next_number = self._next_completed = 0
        self._ended: dict[int, Commit] = {}
        self._rest: Commit | None = None  # the commit whose completion continues in a later turn
        self._rest_begin = 0
        self._rest_error: BaseException | None = None
        self._ended_between_checks = self._ended_until_check = 1
        self._commits = self._entries = self._bytes = self._entries_max = self._duration_ns = 0

    def start(self, executor: CommitExecutor) -> None:
        self._executor = executor
        self._ended_between_checks = self._ended_until_check = executor.ended_between_checks
        executor.start(self)

    # On the event loop

    def submit(self, submission: Submission) -> None:
        """Append a submission; call `start_commit` once the current burst of submissions is complete.

        After a failed commit the submission ends at once, with the error.
        """
        if self.error is not None:
            self._end(submission, self.error)
            return
        if self._counts_bytes:
            self._submitted_bytes += sum(map(self.storage.size_of, submission.entries))
        self._waiting.append(submission)

    def start_commit(self, following: int = 0) -> None:
        """Start a commit if submissions wait.

        Args:
            following: number of requests that will be handled shortly. If it is not 0, the caller must call this again
                after handling some, because a group commit may wait for their entries.
        """
        if not self._waiting or self._executor is None:
            return
        must_gather = self.place.must_gather(
            len(self._waiting), following, is_in_flight=self.is_in_flight, is_synced=self.storage.is_synced
        )
        if not must_gather and (count := self._takeable()):
            self._executor.wake(count)

    def _takeable(self) -> int:
        # The thread of a running commit checks for work after it, so another thread is needed only to run beside it.
        # The thread that frees a key takes the submissions that wait for the key.
        is_slow = self.pace.next_begin_ns(0) is not None
        if not is_slow and (self._running or self._is_taking):
            return 0
        if self.batching is Batching.GROUP:
            return 1
        most = self.commits_in_flight if is_slow else 1
        wanted, key_of, count = set(self._busy_keys), self.storage.key_of, 0
        # A copy, because a thread may take from the deque during the loop.
        for submission in tuple(self._waiting):
            count += wanted.isdisjoint(map(key_of, submission.entries))
            if count == most:
                break
            wanted.update(map(key_of, submission.entries))
        return count

    @property
    def is_backlogged(self) -> bool:
        """True if commits per request run serially, on fast storage, and at least BACKLOG_MIN of them wait."""
        is_serial = self.batching is Batching.REQUEST and self.pace.next_begin_ns(0) is None
        return is_serial and len(self._waiting) >= BACKLOG_MIN

    @property
    def is_in_flight(self) -> bool:
        return self._is_taking or self._rest is not None or self._next_completed != self._next_number

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self.is_in_flight

    def complete(self, *commits: Commit) -> None:
        """Complete finished commits in the order in which they started, and send the responses they release.

        Without commits, complete the rest of an earlier call. Never raises.
        """
        # One burst for all of them, so that each connection gets its responses in one send.
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
        """End the submissions of a commit from index `begin`, until `should_yield` asks to stop."""
        error = self._rest_error if begin else self._begin_to_finish(commit)
        self._rest = self._rest_error = None
        for submission in commit.submissions[begin:] if begin else commit.submissions:
            request = submission.request
            if request is not None and request.enqueued_ns:  # the request is timed
                request.commit = commit.number
                request.submitted_ns = submission.submitted_ns
                request.durable_ns = commit.durable_ns
            self._end(submission, error)
            begin += 1
            self._ended_until_check -= 1
            if not self._ended_until_check:
                self._ended_until_check = self._ended_between_checks
                # Asked only while something is left: a rest without submissions would delay `on_completed` for nothing.
                is_last = begin == len(commit.submissions) and not self._ended
                if not is_last and self._executor is not None and self._executor.should_yield():
                    self._rest, self._rest_begin, self._rest_error = commit, begin, error
                    return
        commit.completed_ns = now_ns()
        if error is None and self.on_completed is not None:
            try:
                self.on_completed(commit)
            except Exception as problem:  # noqa: BLE001 - a bug of an observer must not end the event loop
                self._fail(problem)

    def _begin_to_finish(self, commit: Commit) -> BaseException | None:
        """Report a durable commit to `on_commit` and count it; return the error if it failed."""
        # An earlier failure fails this commit too, even if its own sync succeeded: its entries follow lost ones.
        error = self.error or commit.error
        if error is None:
            try:
                self._on_commit(commit)
            except Exception as problem:  # noqa: BLE001 - nothing may escape; acknowledges nothing
                error = problem
        if error is not None:
            self._fail(error)
            return error
        # Only successful commits count: the duration of a failed one says nothing about the disk.
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
        # Before the lock: its holder may be waiting for space.
        self.storage.fail_waiting_writes()
        # A thread may be taking submissions. The longest wait for the lock is one write, since writes that wait for
        # space fail now.
        with self._turn:
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
        """Take the next commit and write it; the caller must pass it to `end_commit` next.

        Args:
            may_wait: whether this may wait for other threads and for the storage (a full disk, for example); if not, it
                returns None instead.

        Returns:
            the commit, whether its write succeeded or not; None if no commit may start now.
        """
        if not self._turn.acquire(blocking=may_wait):
            return None
        try:
            # `_turn` covers taking and writing, so entries are written in the order in which their commits complete.
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
        """Write and sync the next commit on the event loop; the caller must pass it to `complete` next.

        Returns:
            the commit, whether it succeeded or not; None if no commit may start now, its write might block, or commits
            have an injected delay.
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
        self._waiting.extendleft(reversed(commit.submissions))  # first, so that the committer never seems idle
        self._next_number -= 1
        self._running.discard(commit.number)
        if self.batching is Batching.REQUEST:
            self._busy_keys.difference_update(map(self.storage.key_of, commit.entries))

    def seconds_to_begin(self) -> float | None:
        """Return the seconds that the next group commit must wait before it may start beside others.

        Returns None if no submission waits, the commits in flight must end first, or a commit failed. Always None with
        a commit per request.
        """
        if not self._waiting or self._is_poisoned or self.batching is Batching.REQUEST:
            return None  # the thread that frees a key takes the submissions that wait for it
        wait_ns = self._wait_ns()
        return None if wait_ns is None else wait_ns / 1e9

    @property
    def is_large(self) -> bool:
        """True if the pace counts bytes and lets the waiting submissions start a commit now."""
        return self._counts_bytes and self._wait_ns() == 0

    def _wait_ns(self) -> int | None:
        if self.batching is Batching.REQUEST or not (self._running or self._counts_bytes):
            return 0
        last_begin_ns = self._last_begin_ns if self._running else None
        return self.pace.wait_ns(now_ns(), last_begin_ns, self._submitted_bytes - self._taken_bytes)

    def end_commit(self, commit: Commit, sleep: Callable[[float], None] = time.sleep) -> None:
        """Sync a commit, unless its write failed, and wait for an injected delay.

        The caller must pass the commit to `complete` next. A failure is kept in its `error`; nothing is raised.

        Args:
            sleep: waits for the rest of the delay, in seconds.
        """
        if commit.error is None:
            try:
                self.storage.sync(commit.ticket)
            except BaseException as error:  # noqa: BLE001 - any failure fails the commit, an interrupt included
                commit.error = error
                self._is_poisoned = True  # at once: waiting for `_turn` would let other threads write more
        if self.delay_ns and commit.error is None:
            self._wait_for_delay(commit, sleep)
        commit.durable_ns = now_ns()
        if self.batching is Batching.REQUEST and commit.error is None:  # after a failure no commit is taken
            self._busy_keys.difference_update(map(self.storage.key_of, commit.entries))
        self._running.discard(commit.number)

    def _write(self, commit: Commit, write: Callable[[Sequence[Any]], Any]) -> bool:
        """Write a commit and keep its error; return False if `write` refused to block."""
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
        # Until `_running` has the commit, this flag keeps `is_idle` False. Without it the server could stop in between.
        self._is_taking = True
        commit = Commit(self._next_number)
        try:
            if self.batching is Batching.GROUP:
                self._take_group(commit)
            else:
                self._take_one(commit)
        except Exception as error:  # noqa: BLE001 - entries that the storage cannot handle must not end the thread
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
        key_of = self.storage.key_of
        # The oldest submission none of whose keys is busy or wanted by an older one. A submission without entries waits
        # for all older ones, as if it wanted every key.
        wanted = set(self._busy_keys)
        # By index, because the event loop may append during the loop.
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
    """Return the number of requests, or 0 if they do not all belong to one connection."""
    request = submissions[0].request
    if request is None:
        return 0
    connection = request.connection
    for submission in submissions:
        if submission.request is None or submission.request.connection is not connection:
            return 0
    return len(submissions)
