"""A connection in every state: muted, throttled, half closed, reset, slow, closing, waiting for room."""

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stages.connection import CLOSE_FLUSH_SECONDS
from stages.mode import CLASSIC, PIPELINED
from stages.mute import MuteReason
from stages.request import Parked, Send
from stages.testing.memory_server import open_memory_server
from stages.testing.memory_storage import MemoryStorage
from tests.stages.connection_bench import ONE_QUEUE, ByHand, connection_of, run


def test_responses_wait_for_earlier_ones_and_leave_together():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1", b"2", b"s3", b"n4", b"5")
        await wait_all_tasks_blocked()
        application.answer(b"5")
        application.answer(b"2")
        await wait_all_tasks_blocked()
        assert client.unread_bytes == 0
        application.answer(b"1")
        assert await client.receive_count(4) == [b"1", b"2", b"s3", b"5"]

    run(test)


@pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)
def test_it_is_muted_at_its_depth_and_reads_again_below(mode):
    async def test(memory, application):
        client = await memory.connect()
        client.send(*(f"{number}".encode() for number in range(100)))
        await wait_all_tasks_blocked()
        assert len(application.handled) == mode.in_flight_max
        assert connection_of(memory).statistics().mute_reasons == ("IN_FLIGHT",)
        application.answer(b"0")
        await wait_all_tasks_blocked()
        assert len(application.handled) == mode.in_flight_max + 1
        statistics = connection_of(memory).statistics()
        assert (statistics.received, statistics.released, statistics.in_flight) == (
            mode.in_flight_max + 1,
            1,
            mode.in_flight_max,
        )
        client.reset()

    run(test, mode=mode)


def test_a_connection_of_classic_is_not_read_before_its_response_has_left():
    """As in Apache Kafka, an unread response counts as the one request in flight."""

    async def test(memory, application):
        client = await memory.connect(capacity_bytes=1000)
        client.send(b"b1", b"s2")
        await wait_all_tasks_blocked()
        assert application.handled == [b"b1"]
        assert connection_of(memory).statistics().mute_reasons == ("IN_FLIGHT",)
        assert [len(response) for response in await client.receive_count(2)] == [10_000, 2]
        assert application.handled == [b"b1", b"s2"]

    run(test, mode=CLASSIC)


def test_overlapping_throttles_end_with_the_later_one():
    """Behaviour 12."""

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"s")
        await client.receive()
        began, connection = trio.current_time(), connection_of(memory)
        connection.throttle(5.0)
        connection.throttle(2.0)
        connection.throttle(9.0)
        client.send(b"s after")
        await client.receive()
        assert trio.current_time() - began == 9.0
        connection.throttle(0.0)
        connection.throttle(-1.0)
        client.send(b"s at once")
        await client.receive()
        assert trio.current_time() - began == 9.0

    run(test)


class MuteRecords:
    """A timeline that records the ends of mutes."""

    samples_queues = times_requests = True

    def __init__(self):
        self.ended = []

    def mute_ended(self, index, reason, began_ns, ended_ns):
        self.ended.append(reason)

    def __getattr__(self, name):
        return lambda *stamps: None


def test_the_end_of_a_throttle_is_recorded_despite_other_mutes():
    async def main():
        records = MuteRecords()
        application = ByHand()
        async with open_memory_server(CLASSIC, application, timeline=records) as memory:
            client = await memory.connect()
            client.send(b"1")
            await wait_all_tasks_blocked()
            connection_of(memory).throttle(1.0)
            await trio.sleep(2)
            assert records.ended == [MuteReason.THROTTLED]
            application.answer(b"1")
            assert await client.receive() == b"1"
            assert records.ended == [MuteReason.THROTTLED, MuteReason.IN_FLIGHT]

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_half_closed_connection_is_answered_and_closed():
    """Behaviours 7, 39 and testGracefulClose."""

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1", b"s2")
        client.half_close()
        await wait_all_tasks_blocked()
        assert not client.is_closed_by_server
        application.answer(b"1")
        assert await client.receive_all() == [b"1", b"s2"]
        assert application.closed == ["session of 0"]

    run(test)


def test_a_half_closed_connection_that_never_reads_is_closed_in_time():
    async def test(memory, application):
        client = await memory.connect(capacity_bytes=100)
        client.send(b"big")
        client.half_close()
        await trio.sleep(CLOSE_FLUSH_SECONDS + 1)
        assert client.is_closed_by_server

    run(test)


def test_a_close_lets_earlier_responses_leave_and_no_later_request_is_read():
    async def test(memory, application):
        client = await memory.connect(capacity_bytes=100)
        client.send(b"s1", b"big", b"c2", b"s3")
        await wait_all_tasks_blocked()
        client.send(b"s4")
        await wait_all_tasks_blocked()
        assert application.handled == [b"s1", b"big", b"c2", b"s3"]
        assert await client.receive_all() == [b"s1", bytes(10_000)]

    run(test)


def test_a_close_whose_client_never_reads_closes_in_time():
    async def test(memory, application):
        client = await memory.connect(capacity_bytes=100)
        client.send(b"big", b"c")
        await trio.sleep(CLOSE_FLUSH_SECONDS + 1)
        assert client.is_closed_by_server

    run(test)


@pytest.mark.parametrize("state", ["in flight", "muted", "blocked", "throttled", "half a frame"])
def test_a_reset_in_every_state_frees_everything_and_late_completions_are_dropped(state):
    """Behaviours 29 and 61."""

    async def test(memory, application):
        client, other = await memory.connect(capacity_bytes=100), await memory.connect()
        client.send(b"1")
        await wait_all_tasks_blocked()
        if state == "muted":
            client.send(*[b"x"] * 100)
        elif state == "blocked":
            client.send(b"big")
            application.answer(b"1")
        elif state == "throttled":
            connection_of(memory).throttle(30)
        elif state == "half a frame":
            client.send_bytes(b"\0\0\0\x09abc")
        await wait_all_tasks_blocked()
        client.reset()
        for request in application.parked:
            request.complete(Send(b"late"))
        await trio.sleep(60)
        assert len(memory.server.processors[0].connections) == 1
        other.send(b"s")
        assert await other.receive() == b"s"
        assert application.closed == ["session of 0"]

    run(test)


def test_a_slow_reader_is_bounded_by_unsent_bytes_and_served_when_it_reads():
    async def test(memory, application):
        client = await memory.connect(capacity_bytes=1000)
        client.send(*[b"b"] * 50)
        await wait_all_tasks_blocked()
        connection = connection_of(memory)
        assert connection.unsent_bytes <= 25_000 + ONE_QUEUE.in_flight_max * 10_004
        assert MuteReason.UNSENT_BYTES in connection.mute
        handled = len(application.handled)
        await trio.sleep(10)
        assert len(application.handled) == handled
        client.half_close()
        assert len(await client.receive_all()) == 50

    run(test, mode=attrs.evolve(ONE_QUEUE, in_flight_max=4), unsent_bytes_max=25_000)


@pytest.mark.parametrize("size", [-1, 101, 2**31 - 1])
def test_a_bad_size_closes_only_its_connection(size):
    """Behaviour 6."""

    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send_bytes(size.to_bytes(4, "big", signed=True) + b"x")
        assert await client.receive_all() == []
        other.send(b"s")
        assert await other.receive() == b"s"

    run(test, frame_bytes_max=100)


def test_requests_before_an_invalid_size_are_answered():
    """In both modes, although only classic mode answers them one after the other."""

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1", b"s2")
        client.send_bytes(b"\xff\xff\xff\xff")
        await wait_all_tasks_blocked()
        application.answer(b"1")
        assert await client.receive_all() == [b"1", b"s2"]

    run(test)


def test_an_empty_frame_is_a_request():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"")
        await wait_all_tasks_blocked()
        application.answer(b"")
        assert await client.receive() == b""

    run(test)


def test_large_frames_arrive_whole_in_small_pieces():
    async def test(memory, application):
        client = await memory.connect(receive_sizes=(1, 0, 1000, 70_000), capacity_bytes=10**6)
        payloads = [b"s" + bytes(200_000), b"s small", b"s" + bytes(65_535)]
        client.send(*payloads)
        assert await client.receive_count(3) == payloads

    run(test)


def test_an_idle_connection_expires():
    """Behaviours 10 and testIdleExpiryWithoutReadyKeys."""

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"s")
        await client.receive()
        await trio.sleep(29)
        assert not client.is_closed_by_server
        assert await client.receive_all() == []
        assert trio.current_time() < 33
        assert memory.server.statistics().processors[0].expired == 1

    run(test, idle_seconds_max=30.0)


def test_the_watchdog_closes_a_connection_whose_oldest_slot_is_forgotten():
    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send(b"forgotten")
        assert await client.receive_all() == []
        assert not other.is_closed_by_server

    run(test, slot_seconds_max=0.0)


@pytest.mark.parametrize("result", [None, "text", 5, Send("text"), Send(b"a", "text"), Send(3)])
def test_what_is_no_result_closes_only_its_connection(result):
    """Behaviours 35 and 50."""

    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send(b"s1", b"2", b"s3")
        await wait_all_tasks_blocked()
        application.parked.pop().complete(result)
        assert await client.receive_all() in ([b"s1"], [])
        other.send(b"s")
        assert await other.receive() == b"s"

    run(test)


def test_work_that_is_parked_runs_in_a_thread_and_its_failure_is_answered():
    class Reading(ByHand):
        def handle(self, request):
            frame = bytes(request.frame)
            return Parked(lambda: Send(frame) if frame != b"bad" else int("x"))

        def failed(self, request, error):
            return Send(type(error).__name__.encode())

    async def main():
        async with open_memory_server(PIPELINED, Reading(), storage=MemoryStorage()) as memory:
            client = await memory.connect()
            client.send(b"cold", b"bad", b"read")
            assert await client.receive_count(3) == [b"cold", b"ValueError", b"read"]
            assert memory.server.statistics().handlers.blocking_works == 0

    trio.run(main)


@pytest.mark.parametrize("bound", [{"requests_max": 1}, {"bytes_max": 1}], ids=["room in the queue", "bytes"])
def test_a_connection_that_was_called_and_throttled_before_it_ran_passes_its_turn(bound):
    async def test(memory, application):
        pool, go_on, waits = memory.server.handlers, trio.Event(), "bytes_max" not in bound
        turn = pool._turn

        async def turn_that_makes_room(queue):
            nonlocal waits
            await go_on.wait()
            await turn(queue)
            if waits:
                connection_of(memory, 1).throttle(10)
            waits = False

        pool._turn = turn_that_makes_room
        clients = [await memory.connect() for _ in range(3)]
        for number, client in enumerate(clients, 1):
            client.send(b"%d" % number)
            await wait_all_tasks_blocked()
        go_on.set()
        await wait_all_tasks_blocked()
        application.answer(b"1")
        if "bytes_max" in bound:
            connection_of(memory, 1).throttle(10)
        await wait_all_tasks_blocked()
        assert application.handled == [b"1", b"3"]
        application.answer(b"3")
        await trio.sleep(10.1)
        application.answer(b"2")
        assert [await client.receive() for client in clients] == [b"1", b"2", b"3"]

    run(test, mode=ONE_QUEUE, **bound)


def test_a_connection_is_overdue_above_its_bounds_but_not_at_them():
    async def test(memory, application):
        await memory.connect()
        await wait_all_tasks_blocked()
        connection = connection_of(memory)
        connection.last_active = 100.0
        assert [connection.is_overdue(now) for now in (160.0, 160.1)] == [False, True]

    run(test, idle_seconds_max=60.0)
