"""Routing is stable, and every waiter is resumed: for room in its queue, or for bytes in the budget."""

import subprocess
import sys

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from stages.mode import CLASSIC, PIPELINED
from stages.mute import MuteReason
from stages.request import Request
from stages.request_channel import RequestChannel, RequestQueue, RequestQueueStatistics, shard_of


class Waiter:
    """A connection as a queue sees it; `is_able` says whether it can use a turn."""

    def __init__(self, is_able=True):
        self.is_able = is_able
        self.turns = []

    def resume(self, reason):
        self.turns.append(reason)
        return self.is_able


def request(size=1):
    return Request(None, 0, bytes(size), 0)


def test_a_shard_is_the_same_in_every_process():
    code = "from stages.request_channel import shard_of; print([shard_of(f'c-{i}', 7) for i in range(50)])"
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert eval(elsewhere) == [shard_of(f"c-{i}", 7) for i in range(50)]


def test_shards_are_used_evenly():
    counts = [0] * 8
    for index in range(8000):
        counts[shard_of(f"127.0.0.1:9092-127.0.0.1:{index}-0-{index}", 8)] += 1
    assert min(counts) > 850
    assert max(counts) < 1150


def test_queues_share_the_capacity_and_each_has_room_for_one():
    assert [queue.capacity for queue in RequestChannel(PIPELINED, requests_max=500).queues] == [62] * 8
    assert [queue.capacity for queue in RequestChannel(CLASSIC, requests_max=500).queues] == [500]
    assert [queue.capacity for queue in RequestChannel(PIPELINED, requests_max=3).queues] == [1] * 8


def test_a_full_queue_refuses_and_gives_back_in_order():
    queue = RequestQueue(4, 2)
    assert queue.statistics() == RequestQueueStatistics(4, 0, 2, 0, 0, 0, 0)
    first, second = request(), request()
    queue.put_nowait(first)
    queue.put_nowait(second)
    assert not queue.has_room
    with pytest.raises(trio.WouldBlock):
        queue.put_nowait(request())
    assert [queue.requests.popleft(), queue.requests.popleft()] == [first, second]
    assert first.queue == 4
    statistics = queue.statistics()
    assert (statistics.put, statistics.depth, statistics.depth_max, statistics.capacity) == (2, 0, 2, 2)


def test_room_goes_to_the_oldest_waiters_that_can_use_it():
    queue = RequestQueue(0, 2)
    first, unable, second, third = Waiter(), Waiter(is_able=False), Waiter(), Waiter()
    for waiter in (first, unable, second, third):
        queue.wait_for_room(waiter)
    queue.resume_waiters()
    assert [len(waiter.turns) for waiter in (first, unable, second, third)] == [1, 1, 1, 0]
    assert queue.statistics().waiting_for_room == 1


def test_a_waiter_that_closes_or_cannot_use_its_turn_passes_it_on():
    queue = RequestQueue(0, 1)
    called, waiting = Waiter(), Waiter()
    queue.wait_for_room(called)
    queue.wait_for_room(waiting)
    queue.resume_waiters()
    assert (called.turns, waiting.turns) == ([MuteReason.QUEUE_FULL], [])
    queue.pass_turn(called)
    assert waiting.turns == [MuteReason.QUEUE_FULL]
    last = Waiter()
    queue.wait_for_room(last)
    queue.pass_turn(last)  # it still waits, so it has no turn to pass on
    assert last.turns == []
    queue.stop_waiting(waiting)
    assert last.turns == [MuteReason.QUEUE_FULL]


def test_a_waiter_that_could_not_use_its_turn_is_next():
    queue = RequestQueue(0, 1)
    first, called = Waiter(), Waiter()
    queue.wait_for_room(first)
    queue.wait_for_room(called, is_next=True)
    queue.resume_waiters()
    assert (len(called.turns), len(first.turns)) == (1, 0)


def test_a_held_queue_resumes_with_the_callback_that_held_it():
    queue = RequestQueue(0, 9)
    asked, held = request(), request()
    queue.put_callback(asked, print)
    queue.hold(held, repr)
    assert queue.is_held
    assert list(queue.callbacks) == [(held, repr), (asked, print)]
    assert queue.statistics().callbacks == 2
    queue.go_on()
    assert not queue.is_held


@pytest.mark.parametrize("left", ["nothing", "a connection", "a request", "a callback"])
def test_a_queue_is_drained_when_it_is_retired_and_nothing_is_left(left):
    queue = RequestQueue(0, 9)
    match left:
        case "a connection":
            queue.connections += 1
        case "a request":
            queue.put_nowait(request())
        case "a callback":
            queue.put_callback(request(), None)
    assert queue.has_work == (left in {"a request", "a callback"})
    assert not queue.is_drained
    queue.retire()
    assert queue.is_drained == (left == "nothing")


def test_handlers_of_a_retired_queue_wake_when_its_last_connection_leaves_or_moves():
    async def main():
        for leaves in (True, False):
            channel = RequestChannel(attrs.evolve(PIPELINED, queues=1))
            queue = channel.route("a")
            channel.resize(1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(queue.wait_for_work)
                await wait_all_tasks_blocked()
                assert not queue.is_drained
                if leaves:
                    channel.leave(queue)
                else:
                    assert channel.route("a", queue) is channel.queues[0]
            assert queue.is_drained
            assert channel.queues[0].connections == (not leaves)

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_following_counts_requests_of_scheduled_handlers_only():
    """A commit waits for these requests; requests of an idle handler would make it wait forever."""

    async def main():
        channel = RequestChannel(attrs.evolve(PIPELINED, queues=2))
        first, second = channel.queues
        first.put_nowait(request())
        assert channel.following == 0, "no handler was woken for it"
        async with trio.open_nursery() as nursery:
            for queue in channel.queues:
                nursery.start_soon(queue.wait_for_work)
            await wait_all_tasks_blocked()
            first.put_nowait(request())
            assert channel.following == 2
            second.put_nowait(request())
            assert channel.following == 3
            first.is_held = True
            assert channel.following == 1
            second.is_scheduled = False  # its turn has begun
            assert channel.following == 0

    trio.run(main)


def test_bytes_go_to_one_waiter_at_a_time_and_on_when_it_cannot():
    """Behaviour testMuteOnOOM."""
    channel = RequestChannel(PIPELINED, bytes_max=10)
    channel.hold_bytes(25)  # a single request may overshoot
    assert channel.bytes_held == 25
    first, unable, second, third = Waiter(), Waiter(is_able=False), Waiter(), Waiter()
    for waiter in (unable, first, second, third):
        channel.wait_for_bytes(waiter)
    channel.release_bytes(10)
    assert not any(waiter.turns for waiter in (unable, first, second, third))
    channel.release_bytes(10)
    assert [len(waiter.turns) for waiter in (unable, first, second, third)] == [1, 1, 0, 0]
    channel.pass_turn_for_bytes(first)
    assert second.turns == [MuteReason.QUEUED_BYTES]
    channel.stop_waiting_for_bytes(second)
    assert third.turns == [MuteReason.QUEUED_BYTES]


def test_a_resize_leaves_connections_where_they_are_until_they_move():
    channel = RequestChannel(attrs.evolve(PIPELINED, queues=2), requests_max=8)
    old = channel.route("a")
    new_queues = channel.resize(3)
    assert [queue.index for queue in new_queues] == [2, 3, 4]
    assert channel.generation == 2
    assert [queue.retired for queue in channel.retired] == [True, True]
    assert not old.is_drained
    assert channel.route("a", old) in new_queues
    assert old.is_drained
    channel.forget(old)
    assert len(channel.statistics()) == 4


@given(st.lists(st.tuples(st.sampled_from(["arrive", "take", "close"]), st.integers(0, 9), st.booleans()), max_size=80))
def test_no_waiter_starves_while_the_queue_has_room(steps):
    """Checked after every step: free room always has a resumed waiter."""
    queue, called = RequestQueue(0, 3), []

    class Connection(Waiter):
        def resume(self, reason):
            if self.is_able:
                called.append(self)
            return self.is_able

    waiting = []
    for step, choice, is_able in steps:
        if step == "arrive":
            if queue.has_room and not called:
                queue.put_nowait(request())
            else:
                connection = Connection(is_able=is_able)
                queue.wait_for_room(connection)
                waiting.append(connection)
                queue.resume_waiters()
        elif step == "take":
            if queue.requests:
                queue.requests.popleft()
            queue.resume_waiters()
        elif called:
            connection = called.pop(choice % len(called))
            if is_able and queue.has_room:
                queue.put_nowait(request())
            else:
                queue.stop_waiting(connection)
        else:
            queue.resume_waiters()
        room = queue.capacity - len(queue)
        assert queue.statistics().waiting_for_room == 0 or len(called) >= room


def test_the_byte_budget_is_depleted_while_a_connection_waits_for_it():
    """Not while it is merely used up, and not after its waiter closes."""
    channel = RequestChannel(PIPELINED, bytes_max=10)
    channel.hold_bytes(10)
    assert channel.depleted_ns == 0

    first, second = Waiter(), Waiter()
    channel.wait_for_bytes(first)
    channel.wait_for_bytes(second)
    first_look = channel.depleted_ns
    channel.stop_waiting_for_bytes(first)
    second_look = channel.depleted_ns
    assert 0 < first_look < second_look
    channel.release_bytes(10)

    at_the_end = channel.depleted_ns
    assert channel.depleted_ns == at_the_end > second_look
