"""The threads that run commits: no submission is left, and as many commits run at once as may.

Longer than most files: every test uses the same threads.
"""

import functools
import random
import threading
import time
from collections import Counter

import pytest
import trio

from stages.commit_pace import CommitPace
from stages.commit_place import ALONE_COMMITS_MIN, ALONE_REQUESTS_MAX, THREAD_NS_MAX, CommitPlace
from stages.commit_threads import COMPLETED_NS_MAX, ENDED_BETWEEN_CHECKS, HAND_OVER_MAX, CommitThreads, _State
from stages.committer import BACKLOG_MIN, Commit, Committer, Submission
from stages.loop_turns import COMMIT, NOTED_TURN_SECONDS, LoopTurns
from stages.mode import Batching
from stages.request import Request
from stages.response_sender import ResponseSender
from stages.testing.scripted_commits import AnyPace
from stages.unsent_responses import ResponseBudget

SECONDS_MAX = 10.0
BARRIER_SECONDS = 10.0
LONG_SECONDS = 1.1 * COMPLETED_NS_MAX / 1e9 / ENDED_BETWEEN_CHECKS
"""Duration of a completion: after ENDED_BETWEEN_CHECKS of these a commit takes another turn."""


class Storage:
    """Syncs as the test decides; an entry is its own key."""

    def __init__(self, sync=lambda: None):
        self.sync_one, self.written = sync, []

    def write(self, entries):
        self.written += entries

    is_synced = True

    def write_nowait(self, entries):
        self.write(entries)
        return len(self.written)

    def sync(self, ticket):
        self.sync_one()

    @staticmethod
    def key_of(entry):
        return entry

    @staticmethod
    def size_of(entry):
        return 1

    def fail_waiting_writes(self):
        pass


async def committed(storage, batching, commits_in_flight, entries, *, at_once, pace=None, apart_seconds=0.0):
    """Submit each entry by itself, with at most `at_once` of them in flight, and wait until all are durable."""
    errors, ended = [], []
    room = trio.Semaphore(at_once)
    committer = Committer(
        storage,
        batching=batching,
        sender=ResponseSender(ResponseBudget()),
        commits_in_flight=commits_in_flight,
        pace=pace,
        on_commit=lambda commit: ended.append(commit.number),
        on_failure=errors.append,
    )
    threads = CommitThreads(LoopTurns())
    committer.start(threads)
    try:
        with trio.fail_after(SECONDS_MAX):
            for entry in entries:
                await room.acquire()
                committer.submit(Submission([entry], on_durable=room.release))
                committer.start_commit()
                if apart_seconds:
                    await trio.sleep(apart_seconds)
            for _ in range(at_once):
                await room.acquire()
    finally:
        threads.stop()
    assert not errors
    assert ended == list(range(len(ended)))


@pytest.mark.parametrize("batching", Batching)
@pytest.mark.parametrize("keys", [1, 3, 8])
def test_every_submission_is_committed(batching, keys):
    """A thread that became idle during a submission would leave it, and the stop would never return."""
    randomness = random.Random(keys)
    entries = [randomness.randrange(keys) for _ in range(1500)]
    storage = Storage()
    trio.run(lambda: committed(storage, batching, 4, entries, at_once=6))
    assert sorted(storage.written) == sorted(entries)


def test_commits_of_different_keys_run_at_once():
    """Each round has three keys, and no sync ends before all three have started."""
    barrier = threading.Barrier(3, timeout=BARRIER_SECONDS)
    storage = Storage(barrier.wait)
    trio.run(lambda: committed(storage, Batching.REQUEST, 3, [1, 2, 3] * 50, at_once=3, pace=AnyPace()))
    assert len(storage.written) == 150


def test_more_commits_run_at_once_when_the_bound_is_raised():
    """With one thread the barrier would break and fail the commit."""
    barrier = threading.Barrier(2, timeout=BARRIER_SECONDS)

    async def main():
        durable = []
        storage = Storage(barrier.wait)
        committer = Committer(
            storage,
            batching=Batching.REQUEST,
            sender=ResponseSender(ResponseBudget()),
            on_commit=durable.append,
            on_failure=durable.append,
            pace=AnyPace(),
        )
        threads = CommitThreads(LoopTurns())
        committer.start(threads)
        committer.commits_in_flight = 2
        for entry in (1, 2):
            committer.submit(Submission([entry]))
            committer.start_commit()
        with trio.fail_after(SECONDS_MAX):
            while len(durable) < 2:
                await trio.lowlevel.checkpoint()
        threads.stop()
        assert [commit.entries for commit in durable] == [[1], [2]]

    trio.run(main)


class SlowStorage(Storage):
    """Takes `seconds` for each sync, and counts concurrent ones."""

    def __init__(self, seconds=0.02):
        super().__init__(self.sleep)
        self.seconds = seconds
        self.syncs = self.at_once = self.at_once_max = 0
        self._lock = threading.Lock()

    def sleep(self):
        with self._lock:
            self.syncs += 1
            self.at_once += 1
            self.at_once_max = max(self.at_once, self.at_once_max)
        time.sleep(self.seconds)
        with self._lock:
            self.at_once -= 1


@pytest.mark.parametrize("batching", Batching)
def test_commits_of_slow_storage_learn_to_overlap(batching):
    """All clients wait for their own record before they send the next, so one commit at a time would serve half of
    them.
    """
    for seconds in (0.02, 0.1, 0.4):  # on a busy machine 20 ms are not slow
        storage = SlowStorage(seconds)
        count = round(8 / seconds)
        apart_seconds = seconds / 10  # all at once might always share one commit
        run = functools.partial(committed, at_once=8, apart_seconds=apart_seconds)
        trio.run(run, storage, batching, 4, list(range(count)))
        assert sorted(storage.written) == list(range(count))
        assert storage.at_once_max <= 4
        if storage.at_once_max > 1:
            break
    assert storage.at_once_max > 1


@pytest.mark.parametrize("batching", Batching)
def test_commits_of_fast_storage_never_overlap_and_need_one_thread(batching):
    """Threads that wait for Python's lock cost more than they save: eight of them had two thirds of the rate."""
    ran = set()  # threads of this committer only: brokers of other tests have theirs in this process
    storage = Storage(lambda: ran.add(threading.current_thread()))
    patient = CommitPace(slow_ns=10**9)  # a machine may be busy
    trio.run(lambda: committed(storage, batching, 8, list(range(1500)), at_once=6, pace=patient))
    assert sum(one.name.startswith("committer-") for one in ran) == 1


def test_a_stop_commits_submissions_that_wait_for_the_pace():
    """Threads must not end while a submission waits for the pace."""

    async def main():
        durable = []
        committer = Committer(
            SlowStorage(),
            batching=Batching.GROUP,
            sender=ResponseSender(ResponseBudget()),
            commits_in_flight=4,
            on_commit=durable.append,
            on_failure=durable.append,
        )
        for _ in range(8):
            committer.pace.commit_ended(80_000_000)
        threads = CommitThreads(LoopTurns())
        committer.start(threads)
        for entry in range(6):
            committer.submit(Submission([entry]))
            committer.start_commit()
            await trio.sleep(0.001)
        threads.stop()
        with trio.fail_after(SECONDS_MAX):
            while not committer.is_idle:
                await trio.lowlevel.checkpoint()
        assert [entry for commit in durable for entry in commit.entries] == list(range(6))
        assert len(durable) > 1

    trio.run(main)


class LookingCommitter(Committer):
    """Counts how often a thread looks for work."""

    looks = 0

    def begin_commit(self, **options):
        self.looks += 1
        return super().begin_commit(**options)


class LatePace(AnyPace):
    """Lets a group commit start at a fixed time after the last one."""

    late_ns = 0

    def next_begin_ns(self, last_begin_ns):
        return last_begin_ns + self.late_ns


class HeldStorage(Storage):
    """Blocks every commit until the test frees it."""

    def __init__(self):
        self.is_free = threading.Event()
        super().__init__(lambda: self.is_free.wait(BARRIER_SECONDS))


async def with_a_commit_and_one_that_waits(batching, act):
    """Create idle threads, a commit in flight, and a submission that waits for its key or its time; then act.

    Args:
        act: called with the committer, its threads and its storage, which it must free.
    """
    durable, storage, pace = [], HeldStorage(), LatePace()
    committer = LookingCommitter(
        storage,
        batching=batching,
        sender=ResponseSender(ResponseBudget()),
        commits_in_flight=8,
        pace=pace,
        on_commit=durable.append,
        on_failure=durable.append,
    )
    threads = CommitThreads(LoopTurns())
    committer.start(threads)

    async def until(is_so):
        while not is_so():
            await trio.sleep(0.001)

    def submit(key):
        committer.submit(Submission([key]))
        committer.start_commit()

    with trio.fail_after(SECONDS_MAX):
        for key in range(7):
            submit(key)
            await until(lambda key=key: len(committer._running) == key + 1)
        storage.is_free.set()
        await until(lambda: committer.is_idle)
        storage.is_free.clear()
        pace.late_ns = 300_000_000
        submit(0)
        await until(lambda: committer._running)
        submit(0)
        await act(committer, threads, storage)
        await until(lambda: committer.is_idle)
    assert [commit.entries for commit in durable[7:]] == [[0], [0]]


@pytest.mark.parametrize("batching", Batching)
def test_a_thread_rests_while_something_waits_for_its_key_or_its_time(batching):
    """A busy thread would occupy a core, and Python's lock, for as long as a slow store takes."""

    async def hold(committer, threads, storage):
        looks = committer.looks
        threads._wakeups.put(None)  # a surplus wake-up
        for _ in range(100):
            await trio.sleep(0.001)
        assert committer.looks - looks < 20
        storage.is_free.set()
        await trio.to_thread.run_sync(threads.stop, abandon_on_cancel=True)

    trio.run(with_a_commit_and_one_that_waits, batching, hold)


@pytest.mark.parametrize("batching", Batching)
def test_a_stop_ends_all_threads_though_one_waits_for_a_key_or_a_time(batching):
    """That thread may take the wake-up of another one. A broker then did not end after its successor took over."""

    async def stop(committer, threads, storage):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(functools.partial(trio.to_thread.run_sync, threads.stop, abandon_on_cancel=True))
            await trio.sleep(0.05)
            storage.is_free.set()

    trio.run(with_a_commit_and_one_that_waits, batching, stop)


def test_a_stop_waits_for_the_commit_in_flight():
    """The caller of `stop` closes the storage next."""
    begun, stopped, seen = threading.Event(), threading.Event(), []

    def sync():
        begun.set()
        seen.append(stopped.wait(0.1))

    async def main():
        committer = Committer(
            Storage(sync),
            batching=Batching.GROUP,
            sender=ResponseSender(ResponseBudget()),
            on_commit=lambda commit: None,
            on_failure=lambda error: None,
        )
        threads = CommitThreads(LoopTurns())
        committer.start(threads)
        committer.submit(Submission([1]))
        committer.start_commit()
        assert begun.wait(SECONDS_MAX)
        threads.stop()
        stopped.set()
        assert seen == [False]

    trio.run(main)


class SubmittingCommitter(Committer):
    """Submits at the worst moment: a thread has found nothing and is not yet idle."""

    has_submitted = False

    def begin_commit(self, **options):
        commit = super().begin_commit(**options)
        if commit is None and not self.has_submitted:
            self.has_submitted = True
            self.submit(Submission([1]))
            self.start_commit()
        return commit


def test_an_entry_submitted_while_a_thread_becomes_idle_is_committed():
    async def main():
        durable = trio.Event()
        committer = SubmittingCommitter(
            Storage(),
            batching=Batching.GROUP,
            sender=ResponseSender(ResponseBudget()),
            on_commit=lambda commit: durable.set(),
            on_failure=lambda error: None,
        )
        threads = CommitThreads(LoopTurns())
        committer.start(threads)
        try:
            with trio.fail_after(SECONDS_MAX):
                await durable.wait()
        finally:
            threads.stop()

    trio.run(main)


def test_a_commit_that_ends_during_completions_completes_in_a_later_pass_of_the_loop():
    """Otherwise eight threads with small commits would block the event loop for as long as they have any."""
    threads = CommitThreads(LoopTurns())
    completed = []

    class Completing:
        place = CommitPlace(Batching.GROUP)

        def complete(self, *commits):
            for commit in commits:
                completed.append(commit.number)
                threads._ended.append(commit_of(commit.number + 10))  # as if a thread were that fast

    threads._ended.extend((commit_of(1), commit_of(2)))
    threads._complete(Completing())
    assert completed == [1, 2]
    threads._complete(Completing())
    assert completed == [1, 2, 11, 12]


def test_a_commit_left_to_the_loop_starts_even_if_it_now_needs_a_thread():
    """The thread does not look for it, so it would wait for the next request."""
    threads, started = CommitThreads(LoopTurns()), []

    class Started:
        place = CommitPlace(Batching.GROUP)

        def complete(self, *commits):
            pass

        def start_commit(self):
            started.append(self.place.suits_loop)

    threads._ended.append(commit_of(1))
    threads._complete(Started())
    assert not started
    threads._ended.append(commit_of(2))
    threads._is_left_to_loop = True
    threads._complete(Started())
    assert started == [False]
    threads._complete(Started())
    assert len(started) == 1


def test_a_thread_that_finds_a_commit_in_its_last_look_does_not_count_as_idle():
    """A submission would wake it in vain and start no other thread."""
    threads, states = CommitThreads(LoopTurns()), []

    class Found:
        place = CommitPlace(Batching.GROUP)
        is_backlogged = False
        found = iter([None, commit_of(1)])

        def begin_commit(self, *, may_wait=True):
            states.append(threads._states[0].name)
            return next(self.found)

        def end_commit(self, commit):
            states.append(threads._states[0].name)

    class Ended:
        def run_sync_soon(self, *_):
            states.append(threads._states[0].name)
            raise trio.RunFinishedError

    threads._states.append(None)
    threads._run(0, Found(), Ended())
    assert states == ["COMMITTING", "IDLE", "COMMITTING", "LOOKING"]


@pytest.mark.parametrize("others", [[], ["IDLE", "COMMITTING"], ["WAITING"]])
def test_one_thread_waits_for_the_time_of_the_next_commit_and_others_until_they_are_woken(others):
    """Without it the next commit would start only when one in flight ends."""
    threads, waits = CommitThreads(LoopTurns()), []

    class Later:
        def seconds_to_begin(self):
            return 5.0

    class Wakeups:
        def get(self, timeout):
            waits.append((timeout, threads._states[0]))

    threads._wakeups = Wakeups()
    threads._states += [_State.IDLE, *(_State[name] for name in others)]
    assert threads._rest(0, Later())
    assert waits == [(None, _State.IDLE) if "WAITING" in others else (5.0, _State.WAITING)]
    assert threads._states[0] is _State.LOOKING


@pytest.mark.parametrize(
    ("states", "called", "is_large", "count", "woken", "added"),
    [
        ("IDLE IDLE", 0, False, 2, 2, 0),
        ("IDLE IDLE", 0, False, 1, 1, 0),
        ("IDLE", 0, False, 2, 1, 1),
        ("IDLE IDLE", 1, False, 2, 1, 0),
        ("IDLE COMMITTING", 1, False, 1, 0, 0),
        ("IDLE COMMITTING", 1, False, 2, 0, 1),
        ("LOOKING", 0, False, 1, 0, 0),
        ("COMMITTING", 0, False, 1, 0, 1),
        ("COMMITTING", 0, False, 3, 0, 2),
        ("COMMITTING COMMITTING COMMITTING", 0, False, 2, 0, 0),
        ("WAITING COMMITTING", 0, False, 1, 0, 0),
        ("WAITING COMMITTING", 0, True, 1, 1, 0),
        ("WAITING IDLE", 0, False, 2, 1, 0),
        ("WAITING IDLE", 0, True, 2, 2, 0),
    ],
)
def test_as_many_threads_are_woken_as_commits_have_none_and_made_where_too_few_are_idle(
    states, called, is_large, count, woken, added
):
    """Threads that look for work, or wait for the next start, find a commit by themselves, unless it is large and
    starts early.
    """
    threads = CommitThreads(LoopTurns())

    class Submitted:
        place = CommitPlace(Batching.GROUP)
        commits_in_flight = 3

    Submitted.is_large = is_large
    threads._committer = Submitted()
    threads._states += [_State[name] for name in states.split()]
    before = len(threads._states)
    threads._add_thread = lambda: threads._states.append(_State.LOOKING)
    for _ in range(called):
        threads._wakeups.put(None)
    threads.wake(count)
    assert (threads._wakeups.qsize() - called, len(threads._states) - before) == (woken, added)


def commit_of(number):
    commit = Commit(number)
    commit.submissions.append(Submission([]))
    return commit


class Bench:
    """A committer with threads that records the thread of each write."""

    def __init__(self, batching, *, is_synced, delay_seconds=0.0, pace=None, on_idle=lambda: None):
        self.storage = Storage()
        self.storage.is_synced = is_synced
        self.writers, self.refuses, self.errors = [], False, []
        self.storage.write = self.write
        self.storage.write_nowait = lambda entries: None if self.refuses else self.write(entries)
        self.committer = Committer(
            self.storage,
            batching=batching,
            sender=ResponseSender(ResponseBudget()),
            commits_in_flight=3,
            delay_seconds=delay_seconds,
            pace=pace,
            on_commit=lambda commit: None,
            on_failure=self.errors.append,
            on_idle=on_idle,
        )
        self.threads = CommitThreads(LoopTurns())

    def write(self, entries):
        self.storage.written += entries
        self.writers.append(threading.current_thread() is threading.main_thread())
        return len(self.storage.written)

    async def submit(self, *connection_ids, at_once=1):
        """Submit groups of requests, each once the group before is durable."""
        self.committer.start(self.threads)
        connections = {connection_id: Connection(connection_id) for connection_id in connection_ids}
        try:
            for start in range(0, len(connection_ids), at_once):
                are_durable = []
                for number, connection_id in enumerate(connection_ids[start : start + at_once], start):
                    request = Request(connections[connection_id], number, b"", 0)
                    are_durable.append(trio.Event())
                    self.committer.submit(Submission([number], request=request, on_durable=are_durable[-1].set))
                self.committer.start_commit()
                with trio.fail_after(SECONDS_MAX):
                    for durable in are_durable:
                        await durable.wait()
        finally:
            self.threads.stop()
        assert not self.errors
        assert self.storage.written == list(range(len(connection_ids)))


class Connection:
    def __init__(self, connection_id):
        self.id = connection_id


@pytest.mark.parametrize("batching", Batching)
def test_a_commit_that_needs_no_sync_runs_on_the_loop(batching):
    bench = Bench(batching, is_synced=False)
    trio.run(bench.submit, *"abcabc")
    assert bench.writers == [True] * 6


@pytest.mark.parametrize("batching", Batching)
def test_a_thread_takes_a_write_that_might_block(batching):
    bench = Bench(batching, is_synced=False)
    bench.refuses = True
    trio.run(bench.submit, *"abcabc")
    assert bench.writers == [False] * 6


def test_an_injected_delay_never_holds_the_loop():
    bench = Bench(Batching.GROUP, is_synced=False, delay_seconds=0.001)
    trio.run(bench.submit, *"abc")
    assert bench.writers == [False] * 3


@pytest.mark.parametrize("connections", ["a", "ab"])
def test_commits_of_fast_storage_move_to_the_loop(connections):
    bench = Bench(Batching.GROUP, is_synced=True)
    trio.run(bench.submit, *connections * 60)
    assert not bench.writers[0]
    assert bench.writers.count(True) > 30


def test_a_single_connection_with_much_in_flight_leaves_its_commits_to_threads():
    """It sends more requests during a sync."""
    bench = Bench(Batching.GROUP, is_synced=True)
    trio.run(functools.partial(bench.submit, at_once=ALONE_REQUESTS_MAX + 1), *"a" * 30 * (ALONE_REQUESTS_MAX + 1))
    assert not any(bench.writers)


@pytest.mark.parametrize(("connections", "at_once"), [("a", ALONE_REQUESTS_MAX), ("ab", ALONE_REQUESTS_MAX + 2)])
def test_others_do_not(connections, at_once):
    bench = Bench(Batching.GROUP, is_synced=True)
    trio.run(functools.partial(bench.submit, at_once=at_once), *(connections * 30 * at_once)[: 30 * at_once])
    assert bench.writers.count(True) > 10


def test_a_commit_per_request_runs_on_the_loop_after_some_that_were_alone():
    bench = Bench(Batching.REQUEST, is_synced=True)
    trio.run(bench.submit, *"ab" * 30)
    assert not any(bench.writers[: ALONE_COMMITS_MIN - 1])
    assert bench.writers.count(True) > 20


def test_commits_per_request_of_which_some_wait_never_run_on_the_loop():
    """A thread hands over several of them at once."""
    bench = Bench(Batching.REQUEST, is_synced=True)
    trio.run(functools.partial(bench.submit, at_once=2), *"ab" * 60)
    assert not any(bench.writers)


@pytest.mark.parametrize("batching", Batching)
def test_slow_syncs_are_left_to_threads(batching):
    bench = Bench(batching, is_synced=True)
    bench.storage.sync_one = lambda: time.sleep(THREAD_NS_MAX / 1e9)
    trio.run(bench.submit, *"a" * 40)
    assert not any(bench.writers)


@pytest.mark.parametrize("count", [BACKLOG_MIN, 2 * BACKLOG_MIN])
def test_the_loop_takes_the_commit_after_one_of_a_thread_if_it_suits_the_loop(count):
    bench = Bench(Batching.REQUEST, is_synced=False)
    bench.refuses = True
    bench.storage.sync_one = functools.partial(setattr, bench, "refuses", False)
    trio.run(functools.partial(bench.submit, at_once=count), *"a" * count)
    assert bench.writers == [False] + [True] * (count - 1)


def test_on_a_stop_threads_commit_the_rest_even_if_it_suits_the_loop():
    bench = Bench(Batching.REQUEST, is_synced=False)
    bench.refuses = True

    async def main():
        bench.committer.start(bench.threads)
        for number in range(5):
            bench.committer.submit(Submission([number]))
        bench.threads.stop()
        assert bench.writers == [False] * 5

    trio.run(main)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_left_while_commits_change_between_the_loop_and_threads(seed):
    """Some writes may block, some syncs are slow, and requests may follow."""
    drawn = random.Random(seed)
    bench = Bench(Batching.GROUP, is_synced=True)
    bench.storage.write_nowait = lambda entries: bench.write(entries) if drawn.random() < 0.9 else None
    bench.storage.sync_one = lambda: time.sleep(0.0015) if drawn.random() < 0.02 else None
    count, at_once = 1500, 8

    async def main():
        bench.committer.start(bench.threads)
        connections = [Connection(number) for number in range(3)]
        room = trio.Semaphore(at_once)
        for number in range(count):
            await room.acquire()
            request = Request(connections[number % 3], number, b"", 0)
            bench.committer.submit(Submission([number], request=request, on_durable=room.release))
            bench.committer.start_commit(2 if room.value and number < count - 1 and drawn.random() < 0.3 else 0)
        for _ in range(at_once):
            with trio.fail_after(SECONDS_MAX):
                await room.acquire()
        bench.threads.stop()

    trio.run(main)
    assert not bench.errors
    assert bench.storage.written == list(range(count))
    assert 20 < bench.writers.count(True) < len(bench.writers) - 20


@pytest.mark.parametrize("batching", Batching)
def test_all_that_waits_is_committed_on_the_loop(batching):
    bench = Bench(batching, is_synced=False)

    async def main():
        bench.committer.start(bench.threads)
        try:
            for entry in "abc":
                bench.committer.submit(Submission([entry]))
            bench.committer.start_commit()
            assert bench.committer.is_idle
        finally:
            bench.threads.stop()

    trio.run(main)
    assert bench.storage.written == ["a", "b", "c"]


@pytest.mark.parametrize("batching", Batching)
def test_an_entry_submitted_during_a_completion_does_not_overtake_its_rest(batching):
    bench = Bench(batching, is_synced=False)
    ended = []

    async def main():
        committer = bench.committer
        committer.start(bench.threads)
        is_over = trio.Event()

        def submit_another():
            ended.append("first")
            committer.submit(Submission(["c"], on_durable=lambda: (ended.append("third"), is_over.set())))
            committer.start_commit()

        committer.submit(Submission(["a"], on_durable=submit_another))
        committer.submit(Submission(["b"], on_durable=lambda: ended.append("second")))
        committer.start_commit()
        try:
            with trio.fail_after(SECONDS_MAX):
                await is_over.wait()
        finally:
            bench.threads.stop()

    trio.run(main)
    assert ended == ["first", "second", "third"]


@pytest.mark.parametrize("batching", Batching)
def test_nothing_is_committed_on_the_loop_beside_a_commit_of_a_thread(batching):
    bench = Bench(batching, is_synced=False, pace=AnyPace())
    begun, may_end, is_over = threading.Event(), threading.Event(), trio.Event()

    def sync():
        begun.set()
        assert may_end.wait(SECONDS_MAX)

    async def main():
        bench.committer.start(bench.threads)
        bench.refuses, bench.storage.sync_one = True, sync
        bench.committer.submit(Submission(["a"]))
        bench.committer.start_commit()
        try:
            assert begun.wait(SECONDS_MAX)
            bench.refuses = False
            bench.committer.submit(Submission(["b"], on_durable=is_over.set))
            bench.committer.start_commit()
            assert True not in bench.writers
            may_end.set()
            with trio.fail_after(SECONDS_MAX):
                await is_over.wait()
        finally:
            may_end.set()
            bench.threads.stop()

    trio.run(main)


def busy(seconds):
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        pass


def test_a_long_completion_is_recorded():
    bench, seconds = Bench(Batching.GROUP, is_synced=False), 2 * NOTED_TURN_SECONDS

    async def main():
        began = time.perf_counter()
        bench.committer.start(bench.threads)
        bench.committer.submit(Submission(["a"], on_durable=lambda: busy(seconds)))
        bench.committer.start_commit()
        bench.threads.stop()
        return time.perf_counter() - began

    seconds_max = trio.run(main)
    (noted,) = bench.threads._turns.statistics()
    assert noted.name == COMMIT
    assert seconds <= noted.longest_seconds <= seconds_max


@pytest.mark.parametrize("is_synced", [False, True], ids=["on the loop", "in a thread"])
def test_a_long_completion_lets_other_tasks_run_and_no_later_commit_overtakes_it(is_synced):
    """It takes five turns; another entry is submitted after the first."""
    bench, count = Bench(Batching.GROUP, is_synced=is_synced), 5 * ENDED_BETWEEN_CHECKS
    ended, ticks = [], []

    async def main():
        committer = bench.committer
        committer.start(bench.threads)
        is_over = trio.Event()

        def end(number):
            ended.append((number, len(ticks)))
            busy(LONG_SECONDS)
            if number == 0:
                committer.submit(Submission([count], on_durable=is_over.set))
                committer.start_commit()

        for number in range(count):
            committer.submit(Submission([number], on_durable=functools.partial(end, number)))
        committer.start_commit()
        try:
            with trio.fail_after(SECONDS_MAX):
                while not is_over.is_set():
                    assert not committer.is_idle
                    ticks.append(len(ended))
                    await trio.lowlevel.checkpoint()
        finally:
            bench.threads.stop()
        assert committer.is_idle

    trio.run(main)
    assert [number for number, _ in ended] == list(range(count))
    most = 2 * ENDED_BETWEEN_CHECKS  # a pass of the loop may run it last, and the next pass first
    assert max(Counter(seen for _, seen in ended).values()) <= most
    assert not bench.errors


def test_a_thread_that_a_disk_holds_for_ever_keeps_no_process_alive():
    bench = Bench(Batching.GROUP, is_synced=True)

    async def main():
        bench.committer.start(bench.threads)
        assert [thread.daemon for thread in bench.threads._threads] == [True]
        bench.threads.stop()

    trio.run(main)


def test_a_short_completion_takes_one_turn():
    bench, ended = Bench(Batching.GROUP, is_synced=False), []

    async def main():
        bench.committer.start(bench.threads)
        for number in range(3 * ENDED_BETWEEN_CHECKS):
            bench.committer.submit(Submission([number], on_durable=functools.partial(ended.append, number)))
        bench.committer.start_commit()
        assert ended == list(range(3 * ENDED_BETWEEN_CHECKS))
        bench.threads.stop()

    trio.run(main)


def test_on_idle_is_called_after_the_last_turn():
    ended, is_idle, count = [], trio.Event(), 2 * ENDED_BETWEEN_CHECKS + 1
    bench = Bench(Batching.GROUP, is_synced=False, on_idle=lambda: (ended.append("idle"), is_idle.set()))

    async def main():
        committer = bench.committer
        committer.start(bench.threads)
        for number in range(count):
            committer.submit(Submission([number], on_durable=lambda: (ended.append("one"), busy(LONG_SECONDS))))
        committer.start_commit()
        try:
            with trio.fail_after(SECONDS_MAX):
                await is_idle.wait()
        finally:
            bench.threads.stop()

    trio.run(main)
    assert ended == ["one"] * count + ["idle"]


class SteppedStorage(Storage):
    """Each sync waits for the test; a full storage blocks writes."""

    def __init__(self):
        super().__init__(self.step)
        self.begun = 0
        self.has_room = threading.Event()
        self.has_room.set()
        self._may_end = threading.Semaphore(0)

    def step(self):
        self.begun += 1
        assert self._may_end.acquire(timeout=SECONDS_MAX)

    def write(self, entries):
        assert self.has_room.wait(SECONDS_MAX)
        super().write(entries)

    def write_nowait(self, entries):
        return super().write_nowait(entries) if self.has_room.is_set() else None

    async def end_sync(self):
        """End one sync, and return when the next one starts or none does for a while."""
        begun = self.begun
        self._may_end.release()
        with trio.move_on_after(0.2 if self.has_room.is_set() else 0.01):
            while self.begun == begun:
                await trio.lowlevel.checkpoint()
        for _ in range(5):
            await trio.lowlevel.checkpoint()


async def with_stepped_commits(batching, count, act):
    """Submit entries of different keys during the first commit, then act."""
    storage, durable = SteppedStorage(), []
    committer = Committer(
        storage,
        batching=batching,
        sender=ResponseSender(ResponseBudget()),
        on_commit=durable.append,
        on_failure=durable.append,
        pace=CommitPace(slow_ns=10**11),  # the test's steps are slow
    )
    threads = CommitThreads(LoopTurns())
    committer.start(threads)
    for entry in range(count):
        committer.submit(Submission([entry]))
        committer.start_commit()
        while not storage.begun:
            await trio.lowlevel.checkpoint()
    await act(storage, durable)
    storage.has_room.set()
    for _ in range(count):
        storage._may_end.release()
    with trio.fail_after(SECONDS_MAX):
        while not committer.is_idle:
            await trio.lowlevel.checkpoint()
    threads.stop()
    assert storage.written == list(range(count))


def test_a_thread_hands_over_some_commits_per_request_of_a_backlog_at_once():
    """A hand-over costs more than a commit: twenty commits on fast storage need three hand-overs."""

    async def look(storage, durable):
        seen = []
        for _ in range(20):
            await storage.end_sync()
            seen.append(len(durable))
        assert seen == [0] * 7 + [HAND_OVER_MAX] * 8 + [2 * HAND_OVER_MAX] * 4 + [20]

    trio.run(with_stepped_commits, Batching.REQUEST, 20, look)


def test_finished_commits_do_not_wait_for_a_write_that_waits_for_space():
    """A full disk would otherwise delay the responses of durable requests."""

    async def look(storage, durable):
        await storage.end_sync()
        assert not durable
        storage.has_room.clear()
        await storage.end_sync()
        with trio.fail_after(SECONDS_MAX):
            while len(durable) < 2:
                await trio.lowlevel.checkpoint()

    trio.run(with_stepped_commits, Batching.REQUEST, 5, look)


def test_without_a_backlog_each_commit_is_handed_over_by_itself():
    """Its client would otherwise wait for the commits of others."""

    async def look(storage, durable):
        await storage.end_sync()
        assert len(durable) == 1

    trio.run(with_stepped_commits, Batching.REQUEST, BACKLOG_MIN, look)


def test_group_commits_are_handed_over_one_by_one():
    """Clients of a durable group have the next group's records to send."""

    async def look(storage, durable):
        await storage.end_sync()
        assert len(durable) == 1

    trio.run(with_stepped_commits, Batching.GROUP, 5, look)
