"""Seeded bugs, one for each invariant; every property test must find its own."""

from contextlib import contextmanager

import trio

import stages.muting as muting_room
from stages.admission import Admission
from stages.committer import Committer, Submission
from stages.connection import Connection
from stages.deferred_requests import DeferredRequests
from stages.mute import Mute, MuteReason
from stages.request import PARKED
from stages.request_handler import RequestHandlerPool
from stages.response_order import ResponseOrder
from stages.testing.scripted_commits import ScriptedCommits
from stages.unfinished import UnfinishedRequests
from stages.unsent_responses import UnsentResponses
from tests.compiled import skip_if_compiled
from tests.stages.request_scripts import Ask


@contextmanager
def replaced(owner, name, value):
    skip_if_compiled(owner, name)
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield original
    finally:
        setattr(owner, name, original)


class CorrelationOrder(ResponseOrder):
    """Invariant 3: finds the slot of a response by the client's correlation id."""

    __slots__ = ()

    def complete(self, slot, result):
        wanted = Ask.decode(slot.frame).correlation
        for place, other in enumerate(self._slots):
            if other.result is None and Ask.decode(other.frame).correlation == wanted:
                self._slots[place], index = slot, self._slots.index(slot)
                self._slots[index] = other
                break
        return super().complete(slot, result)


@contextmanager
def forgotten_slots():
    """Invariant 4: the slot of a failed request stays open."""

    def handle(pool, request):
        try:
            return pool._application.handle(request)
        except Exception:  # noqa: BLE001 - this is the bug
            return PARKED

    with replaced(RequestHandlerPool, "_handle", handle):
        yield


class _AlreadyComplete:
    def __init__(self, committer):
        self._committer = committer

    def __getattr__(self, name):
        return getattr(self._committer, name)

    def complete(self, commit):
        pass


class AcknowledgingCommits(ScriptedCommits):
    """Invariant 5: acknowledges before the sync."""

    async def _run(self, committer, commit):
        committer.complete(commit)
        await super()._run(_AlreadyComplete(committer), commit)


class RetryingCommits(ScriptedCommits):
    """Invariant 6: retries a failed sync and trusts it."""

    async def _run(self, committer, commit):
        await super()._run(_Retrying(committer), commit)


class _Retrying(_AlreadyComplete):
    def end_commit(self, commit):
        self._committer.end_commit(commit)
        if commit.error is not None:
            commit.error = None
            self._committer._is_poisoned = False
            self._committer.end_commit(commit)

    def complete(self, commit):
        self._committer.complete(commit)


class SingleBitMute(Mute):
    """Invariant 8: one bit for all reasons, so that the first removed reason ends them all."""

    __slots__ = ()

    def discard(self, reason):
        had_any = bool(self.reasons)
        self.reasons.clear()
        return had_any

    def throttle_ended(self, now):
        return self.discard(MuteReason.THROTTLED)


@contextmanager
def single_bit_mute():
    with replaced(muting_room, "Mute", SingleBitMute):
        yield


@contextmanager
def lost_unmute():
    """Invariant 8, conversely: a removed reason wakes no reader."""

    def discard(mute, reason):
        mute.reasons.discard(reason)
        return False

    with replaced(Mute, "discard", discard):
        yield


@contextmanager
def eager_start():
    """Invariant 8: queued requests start although their client has stopped to read responses."""

    def take_deferred(connection):
        connection.unsent.is_scheduled = False
        request = connection.unsent.take() if connection.unsent.first_waiting else None
        if request is not None:
            connection._deferred._begin()
        return request

    def defer(unsent, request):
        original(unsent, request)
        unsent.is_scheduled = True
        request.connection.admission.queue.put_callback(request, None)

    with replaced(Connection, "take_deferred", take_deferred), replaced(UnsentResponses, "defer", defer) as original:
        yield


@contextmanager
def impatient_start():
    """Invariant 2: requests do not wait for the last turn of an earlier one."""
    with (
        replaced(UnsentResponses, "begin_work", lambda unsent, abandon: None),
        replaced(UnsentResponses, "end_work", lambda unsent, abandon: None),
    ):
        yield


@contextmanager
def hasty_steps():
    """Invariant 5: steps continue as soon as their entries are submitted."""

    def commit(unfinished, work, pending):
        unfinished._committer.submit(Submission(pending.entries, on_durable=pending.on_durable))
        work.go_on()

    with replaced(UnfinishedRequests, "_commit", commit):
        yield


@contextmanager
def forgotten_room():
    """Invariant 8: requests deferred for an unfinished one fill the connection, and the rest never starts."""

    def update(unsent, size_bytes, bytes_max):
        was_full = unsent.is_full
        return original(unsent, size_bytes, bytes_max) and not was_full

    original = UnsentResponses.update
    with (
        replaced(UnsentResponses, "update", update),
        replaced(DeferredRequests, "_mute_without_room", lambda deferred: None),
    ):
        yield


@contextmanager
def blocking_put():
    """Invariant 9: a full queue stops every connection of the processor, like a blocking put on its thread."""

    def hold(admission, frame, *, is_resumed):
        original(admission, frame, is_resumed=is_resumed)
        connection = admission._connection
        if MuteReason.QUEUE_FULL in connection.mute:
            for other in connection._owner.connections - {connection}:
                other.muting.begin(MuteReason.QUEUE_FULL)
                admission.queue.wait_for_room(other)

    with replaced(Admission, "hold", hold) as original:
        yield


@contextmanager
def eager_conversation():
    """Invariant 11: a new conversation starts before the connection is quiet."""

    async def wait_quiet(connection):
        await trio.lowlevel.checkpoint()

    with replaced(Connection, "wait_quiet", wait_quiet):
        yield


def move_at_once(server):
    """Invariant 10: a resize moves connections with requests in flight."""
    for processor in server.processors:
        for connection in processor.connections:
            connection.admission.change_queue()


@contextmanager
def paused_queue(number, until: trio.Event):
    """A fault rather than a bug: the handler of the n-th queue waits before each turn."""

    async def turn(pool, queue):
        if queue.index == number:
            await until.wait()
        await original(pool, queue)

    with replaced(RequestHandlerPool, "_turn", turn) as original:
        yield


@contextmanager
def writes_in_any_order():
    """Invariant 2: a thread may write its commit after another commit was taken."""

    def begin_commit(committer):
        with committer._turn:
            commit = committer._take() if committer._wait_ns() == 0 else None
        if commit is not None and commit.error is None:
            committer._write(commit, committer.storage.write)
        return commit

    with replaced(Committer, "begin_commit", begin_commit):
        yield


@contextmanager
def completes_as_they_end():
    """Invariant 5: commits complete in the order in which threads hand them over."""

    def complete(committer, *commits):
        for commit in commits:
            committer._next_completed += 1
            committer._finish(commit)

    with replaced(Committer, "complete", complete):
        yield


@contextmanager
def overtakes_the_rest():
    """Invariant 2: a later commit does not wait for the rest of a completion in several turns."""

    def complete(committer, *commits):
        rest, begin, executor = committer._rest, committer._rest_begin, committer._executor
        if rest is not None:
            committer._rest = committer._executor = None  # without an executor no rest is left
        original(committer, *commits)
        if rest is not None:
            committer._finish(rest, begin)
        committer._executor = executor

    with replaced(Committer, "complete", complete) as original:
        yield
