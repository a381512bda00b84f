"""The task that syncs records that were acknowledged before their sync."""

import pytest
import trio

from pipeline_broker.log.errors import JournalFailed
from pipeline_broker.log.journal.flush_policy import FlushPolicy
from pipeline_broker.log.segments.policies import FlushRules
from pipeline_broker.node.assembly import sync_in_time
from pipeline_broker.node.thread_wakeup import ThreadWakeup
from tests.log.journal.test_flush_policy import entry, log_of
from tests.virtual_time import run_on_virtual_time, working_threads


class Journal:
    def __init__(self):
        self.wanted = ThreadWakeup()
        self.flush_policy = FlushPolicy("os", self.wanted)
        self.synced, self.error, self.sync_seconds, self.sleeping = [], None, 0, 0

    def write(self, **rules):
        log = log_of(FlushRules(**rules))
        self.flush_policy.topic_changed("t", log.policies.flush)
        if self.flush_policy.must_sync([entry(log)]):
            self.flush_policy.sync_begins(1)
        else:
            self.flush_policy.written([entry(log)])

    def sync_written(self):
        if self.error is not None:
            raise self.error
        self.synced.append(round(trio.from_thread.run_sync(trio.current_time) * 1000))
        self.flush_policy.sync_begins(1)
        trio.from_thread.run(self._sleep)

    async def _sleep(self):
        self.sleeping += 1
        await trio.sleep(self.sync_seconds)
        self.sleeping -= 1

    def run(self, main):
        return run_on_virtual_time(main, lambda: working_threads() - self.sleeping)


def synced(*writes, until=10_000, sync_seconds=0):
    """Return the times of syncs in milliseconds, after writes given as pairs of milliseconds and rules."""

    journal = Journal()
    journal.sync_seconds = sync_seconds

    async def main():
        begin = trio.current_time()
        async with trio.open_nursery() as nursery:
            await nursery.start(sync_in_time, journal, journal.wanted)
            for ms, rules in writes:
                await trio.sleep_until(begin + ms / 1000)
                journal.write(**rules)
            await trio.sleep_until(begin + until / 1000)
            nursery.cancel_scope.cancel()
        return [ms - round(begin * 1000) for ms in journal.synced]

    return journal.run(main)


def test_written_records_are_synced_once_after_flush_ms_of_their_topic():
    assert synced((0, {"ms": 500}), (100, {"ms": 500}), (499, {"ms": 500})) == [500]
    assert synced((0, {"ms": 500}), (600, {"ms": 500})) == [500, 1100]


def test_the_time_of_a_record_that_is_written_while_a_sync_runs_counts_from_the_begin_of_that_sync():
    """The exact moment of the write is not known; it was not earlier."""
    assert synced((0, {"ms": 500}), (600, {"ms": 500}), sync_seconds=0.3) == [500, 1000]
    assert synced((0, {"ms": 500}), (600, {"ms": 500}), sync_seconds=0.7) == [500, 1200]


def test_the_shorter_flush_ms_of_two_topics_applies():
    assert synced((0, {"ms": 5000}), (1000, {"ms": 50})) == [1050]
    assert synced((0, {"ms": 100}), (50, {"ms": 5000})) == [100]


def test_flush_ms_of_zero_syncs_at_once():
    assert synced((300, {"ms": 0})) == [300]


def test_nothing_is_synced_without_flush_ms():
    assert synced((0, {}), (5, {"messages": 5}), (10, {"messages": 1})) == []


def test_a_failed_sync_ends_the_broker():
    journal = Journal()
    journal.error = JournalFailed("the disk failed")

    async def main():
        async with trio.open_nursery() as nursery:
            await nursery.start(sync_in_time, journal, journal.wanted)
            journal.write(ms=5)

    with pytest.RaisesGroup(pytest.RaisesExc(JournalFailed, match="the disk failed")):
        journal.run(main)
