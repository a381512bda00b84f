"""The threads that run commits.

Rules of this room: a thread takes the next commit itself as soon as it is done with one, so that the disk never waits
for the event loop; it hands each ended commit to the loop by `run_sync_soon`; it owns nothing else.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from stages.committer import Committer

__all__ = ["CommitThreads"]


class CommitThreads:
    """Runs the commits of one committer in threads of its own; see `stages.committer.CommitExecutor`.

    A private thread with `run_sync_soon` takes 56 us for a round trip where `trio.to_thread` takes 80.
    """

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_stopping = False

    def start(self, committer: Committer) -> None:
        """Have one thread for each commit that may be in flight, again after that number grew; inside `trio.run`."""
        token = trio.lowlevel.current_trio_token()
        for index in range(len(self._threads), committer.commits_in_flight):
            thread = threading.Thread(target=self._run, args=(committer, token), name=f"committer-{index}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, committer: Committer, token: trio.lowlevel.TrioToken) -> None:
        while True:
            commit = committer.run_one()
            if commit is not None:
                try:
                    token.run_sync_soon(committer.complete, commit)
                except trio.RunFinishedError:
                    return  # the loop is gone, nobody waits for an answer
            elif self._is_stopping:
                return
            else:
                self._wakeups.get()

    def wake(self) -> None:
        """See CommitExecutor; a token too many costs a thread one look, one too few would lose a commit."""
        if self._wakeups.qsize() < len(self._threads):
            self._wakeups.put(None)

    def stop(self) -> None:
        """Let the threads end when nothing is left to take, and wait for them."""
        self._is_stopping = True
        for _ in self._threads:
            self._wakeups.put(None)
        for thread in self._threads:
            thread.join()
