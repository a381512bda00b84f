"""Commits that cost money, run by threads: they wait for their time, and a large one starts early."""

import trio

from stages.commit_pace import PaidCommitPace
from stages.commit_threads import CommitThreads
from stages.committer import Committer, Submission
from stages.loop_turns import LoopTurns
from stages.mode import Batching
from stages.response_sender import ResponseSender
from stages.unsent_responses import ResponseBudget

SECONDS_MAX = 10.0


class Storage:
    """Takes sizes as entries."""

    is_synced = True

    def __init__(self):
        self.written = []

    def write(self, entries):
        self.written += entries

    def write_nowait(self, entries):
        return None

    def sync(self, ticket):
        pass

    @staticmethod
    def key_of(entry):
        return entry

    @staticmethod
    def size_of(entry):
        return entry

    def fail_waiting_writes(self):
        pass


def test_a_paid_commit_waits_for_its_time_unless_it_is_large():
    """The pace is one commit in 1,000 seconds; a large one wakes the sleeping thread."""

    async def main():
        storage, durable = Storage(), []
        pace = PaidCommitPace(0.001, burst=1, large_bytes=1000)
        committer = Committer(
            storage,
            batching=Batching.GROUP,
            sender=ResponseSender(ResponseBudget()),
            on_commit=durable.append,
            on_failure=durable.append,
            pace=pace,
        )
        threads = CommitThreads(LoopTurns())
        committer.start(threads)

        def submit(entry):
            committer.submit(Submission([entry]))
            committer.start_commit()

        with trio.fail_after(SECONDS_MAX):
            submit(1)
            while len(durable) < 1:
                await trio.sleep(0.001)
            submit(400)
            await trio.sleep(0.05)
            submit(500)
            await trio.sleep(0.05)
            assert storage.written == [1]
            submit(101)
            while len(durable) < 2:
                await trio.sleep(0.001)
            assert storage.written == [1, 400, 500, 101]
            assert committer.seconds_to_begin() is None
        threads.stop()

    trio.run(main)
