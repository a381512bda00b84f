"""Commits in drawn threads interleave between any two steps, and a seed gives the same run."""

import itertools
import random
import threading

import pytest
import trio
import trio._core._run as scheduler  # its random generator has no public name
from trio.testing import MockClock

from stages.committer import Committer, Submission
from stages.mode import Batching
from stages.response_sender import ResponseSender
from stages.testing.drawn_commits import DrawnCommits
from stages.testing.memory_storage import MemoryStorage, StorageFaultError
from stages.testing.schedules import Schedule
from stages.testing.scripted_commits import AnyPace
from stages.unsent_responses import ResponseBudget


class Noting(MemoryStorage):
    """Records the calls of the storage and their threads."""

    def __init__(self):
        super().__init__(
            key_of=lambda entry: entry,
            size_of=lambda entry: 1,
            on_sync=lambda number: self.notes.append(f"sync {number}"),
        )
        self.notes, self.synced, self.threads = [], [], set()

    def write(self, entries):
        self.notes.append(f"write {entries[0]}")
        self.threads.add(threading.current_thread())
        return super().write(entries)

    def sync(self, ticket):
        super().sync(ticket)
        self.synced.append(ticket.number)


def run(seed, *, batching=Batching.REQUEST, fault=None, stops_after=None, count=12):
    """Submit entries one after the other; return the storage, the committed entries, the errors, and the schedule."""
    storage, schedule, committed, errors, ended = Noting(), Schedule(), [], [], []
    storage.sync_fault = fault

    async def main():
        committer = Committer(
            storage,
            batching=batching,
            sender=ResponseSender(ResponseBudget()),
            on_commit=lambda commit: committed.extend(commit.entries),
            on_failure=errors.append,
            commits_in_flight=3,
            pace=AnyPace(),
        )
        executor = DrawnCommits([0.001, 0.0, 0.003], schedule, random.Random(seed))
        committer.start(executor)
        for number in range(count):
            committer.submit(Submission([number], on_ended=lambda one, error: ended.append((one.entries[0], error))))
            committer.start_commit()
            await trio.lowlevel.checkpoint()
            if number == stops_after:
                break
        if stops_after is None:
            with trio.fail_after(60):
                while len(ended) < count:
                    await trio.sleep(0.001)
        executor.stop()

    scheduler._r.seed(seed)
    trio.run(main, clock=MockClock(autojump_threshold=0))
    return storage, committed, errors, ended, schedule


@pytest.mark.parametrize("batching", Batching)
def test_everything_is_committed_in_order_on_the_thread_of_the_loop(batching):
    for seed in range(20):
        storage, committed, errors, ended, _ = run(seed, batching=batching)
        assert committed == storage.written == storage.durable == list(range(12))
        assert [entry for entry, _ in ended] == list(range(12))
        assert errors == []
        assert storage.threads == {threading.main_thread()}


def test_commits_are_written_while_others_are_on_their_way_and_synced_in_another_order():
    overlaps = exchanged = 0
    for seed in range(40):
        storage = run(seed)[0]
        overlaps += any(one[0] == other[0] == "w" for one, other in itertools.pairwise(storage.notes))
        exchanged += storage.synced != sorted(storage.synced)
    assert overlaps > 30
    assert exchanged > 30


def test_a_seed_gives_the_same_run_and_another_seed_another():
    prints = [run(seed)[4].fingerprint for seed in (1, 1, 2, 3, 4)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 4


def test_a_failed_sync_fails_later_commits_and_leaves_no_thread():
    for seed in range(20):
        before = set(threading.enumerate())  # a thread of Trio may end at any time
        storage, committed, errors, ended, _ = run(seed, fault=2)
        assert [type(it) for it in errors] == [StorageFaultError]
        assert len(ended) == 12
        assert committed == [entry for entry, error in ended if error is None]
        assert set(committed) <= set(storage.durable) or not committed
        assert set(threading.enumerate()) <= before


def test_an_unfinished_commit_never_ends_after_a_stop():
    for seed in range(20):
        before = set(threading.enumerate())  # a thread of Trio may end at any time
        storage, committed, _, _, _ = run(seed, stops_after=3)
        assert set(committed) <= set(storage.written)
        assert set(threading.enumerate()) <= before
