"""Group commit and commit per request: completion in order, one failure for all, and injected delays.

Longer than most files: every test uses the same committer, with commits that the test starts and ends by hand.
"""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.commit_pace import COMMITS_REMEMBERED, SLOW_GROUP_NS, SLOW_REQUEST_NS, CommitPace, PaidCommitPace
from stages.commit_place import COMMITS_MEASURED, GATHERED_TURNS_MAX
from stages.committer import BACKLOG_MIN, COMMIT_BYTES_MAX, Committer, Submission, _requests_of_one_connection
from stages.mode import Batching
from stages.request import Request
from stages.response_sender import ResponseSender
from stages.testing.memory_storage import MemoryStorage, StorageFaultError
from stages.testing.scripted_commits import AnyPace
from stages.unsent_responses import ResponseBudget
from tests.tables import each_row


class ByHand:
    """An executor that runs nothing: the test starts, ends and completes commits itself."""

    ended_between_checks = 1

    def __init__(self):
        self.wakes, self.could_begin = 0, 0

    def start(self, committer):
        pass

    def wake(self, count=1):
        self.wakes += 1
        self.could_begin = count

    def should_yield(self):
        return False

    def stop(self):
        pass


class Bench:
    """A committer that records everything it reports."""

    def __init__(self, batching, storage=None, **options):
        self.storage = storage or MemoryStorage(key_of=lambda entry: entry[:1])
        self.durable, self.failures, self.ended, self.completed = [], [], [], []
        self.executor = options.pop("executor", None) or ByHand()
        self.committer = Committer(
            self.storage,
            batching=batching,
            sender=options.pop("sender", None) or ResponseSender(ResponseBudget()),
            pace=options.pop("pace", AnyPace()),
            on_commit=lambda commit: self.durable.append(commit.number),
            on_failure=self.failures.append,
            on_completed=lambda commit: self.completed.append(commit.number),
            **options,
        )
        self.committer.start(self.executor)

    def submit(self, *names, on_durable=None):
        for name in names:
            self.committer.submit(
                Submission(
                    [name],
                    on_durable=on_durable,
                    on_ended=lambda one, error: self.ended.append((one.entries[0], error)),
                )
            )

    def begin(self):
        return self.committer.begin_commit()

    def finish(self, commit):
        self.committer.end_commit(commit)
        self.committer.complete(commit)


def test_a_group_commit_takes_all_waiting_submissions_in_order():
    bench = Bench(Batching.GROUP)
    bench.submit("a1", "b1", "a2")
    commit = bench.begin()
    assert commit.entries == ["a1", "b1", "a2"]
    bench.submit("c1")
    assert bench.committer.statistics().waiting == 1
    bench.finish(commit)
    assert bench.ended == [("a1", None), ("b1", None), ("a2", None)]
    statistics = bench.committer.statistics()
    assert (statistics.commits, statistics.entries, statistics.size_bytes, statistics.entries_max) == (1, 3, 6, 3)
    assert not bench.committer.is_idle
    bench.finish(bench.begin())
    assert bench.committer.is_idle
    assert bench.completed == [0, 1]


@pytest.mark.parametrize(
    ("size_bytes", "taken"), [(COMMIT_BYTES_MAX, [["a"], ["b"]]), (COMMIT_BYTES_MAX - 1, [["a", "b"], ["c"]])]
)
def test_a_group_commit_is_bounded_in_bytes_and_takes_at_least_one(size_bytes, taken):
    bench = Bench(Batching.GROUP, MemoryStorage(size_of=lambda entry: size_bytes))
    bench.submit("a", "b", "c")
    assert [bench.begin().entries, bench.begin().entries] == taken


def test_an_entry_submitted_before_the_start_waits_for_it():
    committer = Committer(
        MemoryStorage(),
        batching=Batching.GROUP,
        sender=ResponseSender(ResponseBudget()),
        on_commit=print,
        on_failure=print,
    )
    committer.submit(Submission(["a"]))
    committer.start_commit()
    assert committer.begin_commit().entries == ["a"]


@pytest.mark.parametrize(
    ("batching", "slow_ns"), [(Batching.GROUP, SLOW_GROUP_NS), (Batching.REQUEST, SLOW_REQUEST_NS)]
)
def test_each_batching_has_its_own_idea_of_slow_storage(batching, slow_ns):
    for duration_ns in (slow_ns - 1, slow_ns):
        bench = Bench(batching, pace=None)
        for _ in range(COMMITS_REMEMBERED):
            bench.committer.pace.commit_ended(duration_ns)
        assert (bench.committer.pace.next_begin_ns(0) is None) == (duration_ns < slow_ns)


def test_a_commit_knows_whether_it_ran_on_the_loop():
    bench = Bench(Batching.GROUP)
    bench.submit("a")
    assert bench.committer.commit_nowait().is_on_loop
    bench.submit("b")
    assert not bench.begin().is_on_loop


def test_a_commit_without_entries_costs_no_token_of_paid_commits():
    bench = Bench(Batching.GROUP, pace=PaidCommitPace(0.001, burst=1))
    bench.committer.submit(Submission([]))
    bench.finish(bench.begin())
    bench.submit("a")
    bench.finish(bench.begin())
    bench.submit("b")
    assert bench.begin() is None, "the token is gone"


@pytest.mark.parametrize(
    ("batching", "pace", "waiting", "is_backlogged"),
    [
        (Batching.REQUEST, CommitPace(), BACKLOG_MIN, True),
        (Batching.REQUEST, CommitPace(), BACKLOG_MIN - 1, False),
        (Batching.REQUEST, AnyPace(), BACKLOG_MIN, False),
        (Batching.GROUP, CommitPace(), BACKLOG_MIN, False),
    ],
)
def test_only_commits_per_request_of_fast_storage_have_a_backlog(batching, pace, waiting, is_backlogged):
    bench = Bench(batching, pace=pace)
    bench.submit(*"abcdefgh"[:waiting])
    assert bench.committer.is_backlogged == is_backlogged


def test_a_commit_starts_at_start_commit():
    bench = Bench(Batching.GROUP)
    bench.committer.start_commit()
    assert bench.executor.wakes == 0
    bench.submit("a")
    assert bench.executor.wakes == 0
    bench.committer.start_commit()
    assert bench.executor.wakes == 1


class ByLoop(ByHand):
    """Runs commits on the event loop if they suit it."""

    def start(self, committer):
        self.committer = committer

    def wake(self, count=1):
        super().wake(count)
        if self.committer.place.suits_loop:
            self.committer.complete(self.committer.commit_nowait())


def on_fast_storage():
    """Return a bench with commits that have moved to the event loop."""
    bench = Bench(Batching.GROUP, executor=ByLoop())
    for number in range(COMMITS_MEASURED):
        bench.submit(f"before{number}")
        commit = bench.begin()
        bench.committer.end_commit(commit)
        commit.durable_ns = commit.started_ns + 1
        bench.committer.complete(commit)
    return bench


def test_a_commit_on_the_loop_includes_the_next_requests():
    bench = on_fast_storage()
    bench.submit("a")
    bench.committer.start_commit(following=2)
    bench.submit("b", "c")
    bench.committer.start_commit(following=1)
    assert bench.executor.wakes == 0
    bench.submit("d")
    bench.committer.start_commit()
    assert bench.executor.wakes == 1
    assert bench.completed == list(range(COMMITS_MEASURED + 1))
    assert [name for name, error in bench.ended[-4:]] == ["a", "b", "c", "d"]


def test_a_commit_on_the_loop_waits_for_a_bounded_number_of_turns():
    """Other clients may send requests without end."""
    bench = on_fast_storage()
    for turns in range(1, 3):
        bench.submit("a")
        for _ in range(GATHERED_TURNS_MAX):
            bench.committer.start_commit(following=1)
            assert bench.executor.wakes == turns - 1
        bench.committer.start_commit(following=1)
        assert bench.executor.wakes == turns


def test_a_commit_of_a_thread_waits_for_nothing():
    bench = Bench(Batching.GROUP)
    bench.submit("a")
    bench.committer.start_commit(following=1)
    assert bench.executor.wakes == 1


def test_commits_per_request_run_at_once_and_serial_per_key():
    bench = Bench(Batching.REQUEST)
    bench.submit("a1", "a2", "b1", "a3")
    a1, b1 = bench.begin(), bench.begin()
    assert (a1.entries, b1.entries) == (["a1"], ["b1"])
    assert bench.begin() is None
    bench.committer.end_commit(a1)
    a2 = bench.begin()
    assert a2.entries == ["a2"]
    assert bench.begin() is None


@pytest.mark.parametrize(
    ("pace", "in_flight_max", "could_begin"), [(CommitPace(), 5, 1), (AnyPace(), 2, 2), (AnyPace(), 5, 3)]
)
def test_as_many_threads_are_woken_as_there_are_commits_that_could_begin(pace, in_flight_max, could_begin):
    bench = Bench(Batching.REQUEST, pace=pace, commits_in_flight=in_flight_max)
    bench.submit("a1", "a2", "b1", "c1")
    bench.committer.start_commit()
    assert (bench.executor.wakes, bench.executor.could_begin) == (1, could_begin)


def test_no_thread_is_woken_for_a_submission_that_waits_for_a_busy_key():
    bench = Bench(Batching.REQUEST, commits_in_flight=5)
    bench.submit("a1")
    assert bench.begin() is not None
    bench.submit("a2")
    bench.committer.start_commit()
    assert bench.executor.wakes == 0


def test_a_request_with_two_keys_waits_for_both_and_delays_later_ones():
    bench = Bench(Batching.REQUEST)
    bench.submit("a1")
    bench.committer.submit(Submission(["a2", "b2"]))
    bench.submit("b3", "c1")
    a1 = bench.begin()
    assert bench.begin().entries == ["c1"]
    assert bench.begin() is None  # b3 would overtake b2
    bench.finish(a1)
    assert bench.begin().entries == ["a2", "b2"]


def test_a_request_without_entries_waits_for_those_before_it():
    bench = Bench(Batching.REQUEST)
    bench.submit("a1")
    bench.committer.submit(Submission([]))
    a1 = bench.begin()
    assert bench.begin() is None
    bench.finish(a1)
    assert bench.begin().entries == []


@pytest.mark.parametrize("batching", Batching)
@given(order=st.permutations(range(5)), fault=st.one_of(st.none(), st.integers(0, 4)))
def test_commits_complete_in_the_order_in_which_they_began(batching, order, fault):
    """Five commits in flight end in any order. The first failed one fails all later ones, each once."""
    bench = Bench(batching, commits_in_flight=5)
    commits = []
    for name in "abcde":
        bench.submit(name)
        commits.append(bench.begin())
    for number in order:
        if number == fault:
            bench.storage.sync_fault = bench.storage.syncs
        bench.finish(commits[number])
        assert len(bench.durable) == len([entry for entry, error in bench.ended if error is None])
    good = 5 if fault is None else fault
    assert bench.durable == list(range(good))
    assert [entry for entry, _ in bench.ended] == list("abcde")
    assert [error is None for _, error in bench.ended] == [number < good for number in range(5)]
    assert len(bench.failures) == (fault is not None)
    assert bench.committer.statistics().has_failed == (fault is not None)


@pytest.mark.parametrize("batching", Batching)
@pytest.mark.parametrize("kind", ["write_fault", "sync_fault"])
def test_after_a_failure_nothing_is_written_and_everything_fails_at_once(batching, kind):
    bench, shown = Bench(batching), []
    setattr(bench.storage, kind, 0)
    bench.submit("a", on_durable=lambda: shown.append("a"))
    commit = bench.begin()
    bench.committer.end_commit(commit)
    bench.submit("b", on_durable=lambda: shown.append("b"))
    assert bench.begin() is None  # before the event loop knows
    assert bench.committer.seconds_to_begin() is None
    bench.committer.complete(commit)
    bench.submit("c")
    assert bench.begin() is None
    assert sorted((entry, type(error)) for entry, error in bench.ended) == [(name, StorageFaultError) for name in "abc"]
    assert len(bench.failures) == 1
    assert bench.storage.writes == 1
    assert shown == bench.completed == []
    assert bench.committer.is_idle


def broken():
    raise RuntimeError("a bug of the application")


@pytest.mark.parametrize("kind", ["write_fault", "sync_fault"])
def test_a_failure_on_the_loop_fails_the_commit_as_one_in_a_thread_does(kind):
    bench = Bench(Batching.GROUP)
    setattr(bench.storage, kind, 0)
    bench.submit("a")
    commit = bench.committer.commit_nowait()
    bench.committer.complete(commit)
    assert [(entry, type(error)) for entry, error in bench.ended] == [("a", StorageFaultError)]
    assert bench.committer.is_idle


class LatePace(CommitPace):
    """Lets another commit start an hour after the last one."""

    def next_begin_ns(self, last_begin_ns):
        return last_begin_ns + 3600 * 10**9


@pytest.mark.parametrize("batching", Batching)
def test_only_group_commits_are_held_apart(batching):
    bench = Bench(batching, pace=LatePace(), commits_in_flight=2)
    bench.submit("a")
    assert bench.begin() is not None
    bench.submit("b")
    assert (bench.begin() is None) == (batching is Batching.GROUP)


@pytest.mark.parametrize(("pace", "is_later"), [(LatePace(), True), (CommitPace(), False)])
def test_a_waiting_commit_starts_at_its_time_or_when_the_others_have_ended(pace, is_later):
    bench = Bench(Batching.GROUP, pace=pace, commits_in_flight=2)
    bench.submit("a")
    assert bench.begin() is not None
    assert bench.committer.seconds_to_begin() is None, "nothing waits"
    bench.submit("b")
    seconds = bench.committer.seconds_to_begin()
    assert 3000 < seconds <= 3600 if is_later else seconds is None


class Stoppable(MemoryStorage):
    has_stopped_waiting = False

    def fail_waiting_writes(self):
        self.has_stopped_waiting = True


def test_an_exception_of_a_callback_fails_the_commit_and_escapes_nowhere():
    bench = Bench(Batching.GROUP, Stoppable())
    bench.submit("a", on_durable=broken)
    bench.submit("b")
    bench.finish(bench.begin())
    assert [(entry, error is None) for entry, error in bench.ended] == [("a", False), ("b", True)]
    assert len(bench.failures) == 1
    assert bench.storage.has_stopped_waiting, "or a thread might wait for space forever"


class BrokenSender(ResponseSender):
    def end_burst(self):
        raise RuntimeError("a bug of ours")


def test_an_exception_while_sending_responses_fails_later_commits_and_does_not_escape():
    bench = Bench(Batching.GROUP, sender=BrokenSender(ResponseBudget()))
    bench.submit("a")
    bench.finish(bench.begin())
    assert bench.durable == [0]
    assert len(bench.failures) == 1


@pytest.mark.parametrize("batching", Batching)
def test_a_commit_being_taken_counts_as_in_flight(batching):
    """A thread takes it while the event loop checks whether anything is left."""
    seen = []

    def size_of(entry):
        seen.append((bench.committer.is_in_flight, bench.committer.is_idle))
        return 1

    bench = Bench(batching, MemoryStorage(size_of=size_of))
    bench.submit("a")
    bench.begin()
    assert seen == [(True, False)]


@pytest.mark.parametrize("batching", Batching)
def test_on_fast_storage_no_other_thread_is_woken_while_one_takes_or_runs_a_commit(batching):
    """That thread looks for work after its commit."""
    wakes = []

    def size_of(entry):
        bench.committer.start_commit()  # as the event loop may at the same time
        wakes.append(bench.executor.wakes)
        return 1

    bench = Bench(batching, MemoryStorage(size_of=size_of), pace=CommitPace())
    bench.submit("a", "b")
    commit = bench.begin()
    bench.submit("c")
    bench.committer.start_commit()
    assert {*wakes, bench.executor.wakes} == {0}
    bench.finish(commit)
    bench.committer.start_commit()
    assert bench.executor.wakes == 1


def test_an_exception_of_an_observer_of_commits_escapes_nowhere():
    bench = Bench(Batching.GROUP)
    bench.committer.on_completed = lambda commit: broken()
    bench.submit("a")
    bench.finish(bench.begin())
    assert bench.durable == [0]
    assert len(bench.failures) == 1


def test_an_exception_of_on_ended_does_not_escape():
    """It runs in a callback of the event loop, which an exception would end."""
    bench = Bench(Batching.GROUP)
    bench.committer.submit(Submission(["a"], on_ended=lambda one, error: broken()))
    bench.finish(bench.begin())
    assert len(bench.failures) == 1


@pytest.mark.parametrize("batching", Batching)
@pytest.mark.parametrize("entries", [[5], None, [object()]])
def test_entries_that_the_storage_does_not_know_fail_the_commit_and_not_the_thread(batching, entries):
    bench = Bench(batching)
    bench.submit("a")
    bench.finish(bench.begin())
    ended = []
    bench.committer.submit(Submission(entries, on_ended=lambda one, error: ended.append(error)))
    commit = bench.begin()
    assert commit is not None
    bench.submit("b")
    assert bench.begin() is None, "nothing is written after a failure, also before the loop knows of it"
    bench.finish(commit)
    assert isinstance(ended[0], Exception)
    assert len(bench.failures) == len(ended) == 1
    assert bench.storage.written == ["a"]
    assert bench.committer.is_idle


def test_an_injected_delay_counts_from_the_submit_per_request_and_from_the_start_of_a_group():
    for batching in Batching:
        bench = Bench(batching, delay_seconds=10.0)
        bench.submit("a")
        time.sleep(0.02)
        slept = []
        commit = bench.begin()
        bench.committer.end_commit(commit, slept.append)
        if batching is Batching.REQUEST:
            assert slept[0] <= 9.98
        else:
            assert 9.98 < slept[0] <= 10.0


def test_a_delay_that_is_over_already_waits_for_nothing():
    bench = Bench(Batching.REQUEST, delay_seconds=0.001)
    bench.submit("a")
    time.sleep(0.002)
    slept = []
    bench.committer.end_commit(bench.begin(), slept.append)
    assert slept == []


def test_a_failure_is_reported_without_the_injected_delay():
    def fail(number):
        raise OSError("broken")

    bench, slept = Bench(Batching.GROUP, MemoryStorage(on_sync=fail), delay_seconds=10.0), []
    bench.submit("a")
    commit = bench.begin()
    bench.committer.end_commit(commit, slept.append)
    assert (str(commit.error), slept) == ("broken", [])


def test_a_failure_while_a_thread_takes_a_commit_loses_no_submission():
    """The event loop fails waiting submissions while a thread takes some: each still ends exactly once."""
    for _ in range(30):
        bench = Bench(Batching.GROUP, MemoryStorage(size_of=lambda entry: COMMIT_BYTES_MAX))
        names = [f"{number}" for number in range(300)]
        bench.submit(*names)
        taken = []

        def take(bench=bench, taken=taken):
            while (commit := bench.begin()) is not None:
                taken.append(commit)

        thread = threading.Thread(target=take)
        thread.start()
        bench.committer._fail(StorageFaultError("from a callback"))
        thread.join()
        for commit in taken:
            bench.finish(commit)
        assert sorted(entry for entry, _ in bench.ended) == sorted(names)
        assert bench.committer.is_idle


@pytest.mark.parametrize("batching", Batching)
def test_begin_commit_without_waiting_changes_nothing_if_it_would_wait(batching, monkeypatch):
    """The write would block, or another thread holds the lock, and finished commits must be reported first."""
    bench = Bench(batching)
    bench.submit(b"a1", b"b1", b"a2")
    committer, begin_nowait = bench.committer, lambda: bench.committer.begin_commit(may_wait=False)
    with committer._turn:
        assert begin_nowait() is None
    monkeypatch.setattr(bench.storage, "write_nowait", lambda entries: None)
    assert begin_nowait() is None
    assert not committer.is_idle
    assert not committer.is_in_flight
    taken = bench.begin()
    assert taken.number == 0
    assert taken.entries == ([b"a1", b"b1", b"a2"] if batching is Batching.GROUP else [b"a1"])
    monkeypatch.undo()
    rest = begin_nowait()
    assert rest is None if batching is Batching.GROUP else rest.entries == [b"b1"]


@pytest.mark.parametrize("batching", Batching)
def test_commits_are_written_in_the_order_in_which_they_were_taken(batching):
    """While the write of the first thread blocks, a second thread must not write before it."""
    is_second_there = threading.Event()

    class Held(MemoryStorage):
        def write(self, entries):
            if entries == ["a1"]:
                is_second_there.wait(0.2)  # times out unless a second thread writes
            else:
                is_second_there.set()
            return super().write(entries)

    storage = Held(key_of=lambda entry: entry[:1])
    bench = Bench(batching, storage, commits_in_flight=2)
    bench.submit("a1")
    first = threading.Thread(target=bench.begin)
    first.start()
    while not bench.committer.statistics().in_flight:
        time.sleep(0.001)
    bench.submit("b1")
    second = threading.Thread(target=bench.begin)
    second.start()
    first.join()
    second.join()
    assert storage.written == ["a1", "b1"]


def test_statistics_start_at_zero_and_sum_the_commit_times():
    bench = Bench(Batching.GROUP)
    assert set(bench.committer.statistics()) == {0}
    commits = []
    for name in ("a", "b"):
        bench.submit(name)
        commits.append(bench.begin())
        bench.finish(commits[-1])
    statistics = bench.committer.statistics()
    assert statistics.duration_ns == sum(commit.durable_ns - commit.started_ns for commit in commits)
    assert (statistics.commits, statistics.entries, statistics.size_bytes, statistics.entries_max) == (2, 2, 2, 1)


def test_is_large_counts_the_bytes_submitted_and_not_taken():
    bench = Bench(Batching.GROUP, pace=PaidCommitPace(0.001, burst=1, large_bytes=100))
    bench.submit("a" * 99)
    bench.finish(bench.begin())
    bench.submit("b" * 99)
    assert not bench.committer.is_large
    bench.submit("c")
    assert bench.committer.is_large
    other = Bench(Batching.GROUP)
    other.submit("a" * 1000)
    assert not other.committer.is_large


@each_row(
    "connections, alone",
    [("a", 1), ("aaa", 3), ("ab", 0), ("ba", 0), ("aab", 0), ("a-", 0), ("-a", 0), ("-", 0)],
    ids=["a", "aaa", "ab", "ba", "aab", "a-", "-a", "-"],
)
def test_requests_of_one_connection_are_counted(connections, alone):
    """Submissions without a request belong to no connection."""
    of = {name: object() for name in "ab"}
    submissions = [
        Submission([], request=None if name == "-" else Request(of[name], number, b"", 0))
        for number, name in enumerate(connections)
    ]
    assert _requests_of_one_connection(submissions) == alone


def test_the_rest_of_a_failed_commit_is_refused_in_later_turns():
    class LeavesRest(ByHand):
        def should_yield(self):
            return True

    storage = MemoryStorage()
    storage.sync_fault = 0
    bench = Bench(Batching.GROUP, storage, executor=LeavesRest())
    told = []
    for name in "abc":
        bench.submit(name, on_durable=lambda name=name: told.append(name))
    bench.finish(bench.begin())
    assert [name for name, _ in bench.ended] == ["a"]
    bench.committer.complete()
    bench.committer.complete()
    assert [(name, type(error)) for name, error in bench.ended] == [(name, StorageFaultError) for name in "abc"]
    assert (told, bench.durable, bench.completed) == ([], [], [])
