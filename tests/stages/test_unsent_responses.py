"""The memory of unread responses is bounded, whatever clients request."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from stages.connection import CLOSE_FLUSH_SECONDS
from stages.mode import CLASSIC, PIPELINED
from stages.mute import MuteReason
from stages.request import PARKED, Parked, Request, Send
from stages.unsent_responses import ResponseBudget, UnsentResponses
from tests.stages.connection_bench import ONE_QUEUE, ByHand, connection_of, paused_turns, run
from tests.stages.sabotage import eager_start
from tests.tables import each_row

BIG = 10_004
"""Bytes of the response to `b...`, with its length."""
both_modes = pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)


def total(memory):
    return memory.server.processors[0].response_budget.bytes_held


def test_queued_requests_do_not_start_while_their_client_reads_nothing():
    """Otherwise 64 requests in flight would become 64 responses of any size."""

    async def test(memory, application):
        client = await memory.connect(capacity_bytes=1000)
        client.send(*(b"b%d" % number for number in range(20)), b"s")
        await trio.sleep(10)
        assert len(application.handled) == 3
        assert connection_of(memory).unsent_bytes == 3 * BIG - 1000
        assert MuteReason.UNSENT_BYTES in connection_of(memory).mute
        responses = await client.receive_count(21)
        assert [len(response) for response in responses] == [10_000] * 20 + [1]
        assert application.handled == client.sent
        client.send(b"s again")
        assert await client.receive() == b"s again"
        assert total(memory) == 0

    run(test, unsent_bytes_max=25_000)


def test_a_client_is_not_read_before_it_has_read_enough():
    async def test(memory, application):
        client = await memory.connect(capacity_bytes=1000)
        client.send(b"b")
        await wait_all_tasks_blocked()
        taken, connection = 0, connection_of(memory)
        while BIG - taken - 1000 >= 5000:
            assert MuteReason.UNSENT_BYTES in connection.mute
            taken += len(await client.receive_bytes())
            await wait_all_tasks_blocked()
        assert taken > 1000
        assert not connection.mute

    run(test, unsent_bytes_max=5000)


def test_the_bound_fails_when_requests_are_started_in_spite_of_it():
    with eager_start(), pytest.raises(ExceptionGroup) as caught:
        test_queued_requests_do_not_start_while_their_client_reads_nothing()
    assert caught.group_contains(AssertionError)


def test_responses_that_wait_for_an_earlier_one_count():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1", *[b"b"] * 10)
        await wait_all_tasks_blocked()
        assert len(application.handled) == 1 + 3
        application.answer(b"1")
        assert len(await client.receive_count(11)) == 11

    run(test, unsent_bytes_max=25_000)


def test_an_expected_response_counts_if_its_size_is_known(monkeypatch):
    """Otherwise all fetches of a client would be read from the disk at once."""
    monkeypatch.setattr("tests.stages.connection_bench.PARKED", Parked(response_bytes=10_000))

    async def test(memory, application):
        client = await memory.connect()
        numbers = [b"%d" % number for number in range(1, 8)]
        client.send(*numbers)
        await wait_all_tasks_blocked()
        assert application.handled == numbers[:3]
        assert total(memory) == 30_000
        for number in numbers:
            application.answer(number)
            await wait_all_tasks_blocked()
        assert await client.receive_count(7) == numbers
        assert total(memory) == 0

    run(test, unsent_bytes_max=25_000)


@both_modes
def test_slow_readers_together_are_bounded_and_others_are_served(mode, caplog):
    """The connection whose client has read nothing for longest is closed."""

    async def test(memory, application):
        slow = []
        for _ in range(30):
            slow.append(await memory.connect(capacity_bytes=100))
            slow[-1].send(*[b"b"] * 10)
            await wait_all_tasks_blocked()
        assert total(memory) <= 50_000 + BIG
        left = sorted(memory.server.processors[0].connections, key=lambda connection: connection.index)
        assert total(memory) == sum(one.unsent_bytes for one in left)
        kept = 5 if mode is CLASSIC else 1  # one response each, or the common bound
        assert [connection.index for connection in left] == list(range(30))[-kept:]
        assert memory.server.statistics().unsent_responses.closed == 30 - kept
        other = await memory.connect()
        for number in range(5):
            other.send(b"s%d" % number)
            assert await other.receive() == b"s%d" % number
        for client in slow[25:29]:
            client.reset()
        for client in slow[29:]:
            assert len(await client.receive_count(10)) == 10
        assert total(memory) == 0

    run(test, mode=mode, total_unsent_bytes_max=50_000)
    assert caplog.messages == ["closed 1 connections: their clients read no responses"]  # once a minute


def test_a_client_that_reads_something_is_closed_after_those_that_read_nothing():
    async def test(memory, application):
        reads, *deaf = [await memory.connect(capacity_bytes=100) for _ in range(5)]
        for client in (reads, *deaf):
            client.send(b"b")
            await wait_all_tasks_blocked()
        await reads.receive_bytes()
        await wait_all_tasks_blocked()
        for _ in range(4):
            other = await memory.connect(capacity_bytes=100)
            other.send(b"b")
            await wait_all_tasks_blocked()
        left = {connection.index for connection in memory.server.processors[0].connections}
        assert 0 in left
        assert left.isdisjoint({1, 2, 3, 4})

    run(test, total_unsent_bytes_max=5 * BIG)


def test_a_response_that_is_larger_than_the_bound_is_sent():
    async def test(memory, application):
        client = await memory.connect(capacity_bytes=100)
        client.send(b"b")
        assert len(await client.receive()) == 10_000

    run(test, total_unsent_bytes_max=1_000)


def test_an_application_that_respects_response_room_bytes_keeps_the_bound():
    """Like a fetch: the first response may use the common budget, later ones the rest of their connection's."""

    class Asking(ByHand):
        def handle(self, request):
            self.handled.append(bytes(request.frame))
            return Send(bytes(min(request.connection.response_room_bytes, 40_000)))

    async def test(memory, application):
        clients = [await memory.connect(capacity_bytes=1) for _ in range(100)]
        for client in clients:
            client.send(*[b"x"] * 20)
        await trio.sleep(10)
        assert total(memory) <= 120_000  # some small responses were made before the first was counted
        left = [client for client in clients if not client.is_closed_by_server]
        assert left
        await left[0].receive()

    run(test, application=Asking(), unsent_bytes_max=60_000, total_unsent_bytes_max=100_000)


def test_deferred_requests_start_in_their_order_also_where_the_client_reads_slowly():
    async def test(memory, application):
        client, payloads = await memory.connect(capacity_bytes=100), [b"b%d" % number for number in range(40)]
        client.send(*payloads[:20])
        received = 0
        while received < 40:
            await client.receive()
            received += 1
            if received == 5:
                client.send(*payloads[20:])
            await trio.sleep(0.01)
        assert application.handled == payloads

    run(test, mode=ONE_QUEUE, unsent_bytes_max=15_000)


def test_a_deferred_request_may_park_and_call_back():
    class Later(ByHand):
        def handle(self, request):
            if request.frame[:1] == b"p":
                request.connection.call_back(request, lambda: Send(b"called back"))
                return PARKED
            return super().handle(request)

    async def test(memory, application):
        client = await memory.connect(capacity_bytes=100)
        client.send(b"b", b"b", b"1", b"p", b"s")
        await wait_all_tasks_blocked()
        assert application.handled == [b"b"]
        await client.receive_count(2)
        await wait_all_tasks_blocked()
        application.answer(b"1")
        assert await client.receive_count(3) == [b"1", b"called back", b"s"]

    run(test, application=Later(), unsent_bytes_max=5000)


@pytest.mark.parametrize("end", ["reset", "half close", "stop", "resize"])
def test_deferred_requests_end_with_their_connection(end):
    async def test(memory, application):
        client = await memory.connect(capacity_bytes=100)
        client.send(*[b"b"] * 10)
        await wait_all_tasks_blocked()
        assert len(application.handled) == 1
        match end:
            case "reset":
                client.reset()
                await wait_all_tasks_blocked()
                assert len(application.handled) == 1
            case "half close":
                client.half_close()
                assert len(await client.receive_all()) == 10
            case "stop":
                memory.server.stop()
                await wait_all_tasks_blocked()
                assert len(await client.receive_all()) == 10
            case "resize":
                memory.server.handlers.resize_queues(2)
                assert len(await client.receive_count(10)) == 10
                client.send(b"s")
                assert await client.receive() == b"s"
        await wait_all_tasks_blocked()
        assert total(memory) == 0

    run(test, mode=ONE_QUEUE, unsent_bytes_max=5000)


def test_deferred_requests_of_a_half_closed_client_that_reads_nothing_are_dropped():
    async def test(memory, application):
        client = await memory.connect(capacity_bytes=100)
        client.send(*[b"b"] * 10)
        client.half_close()
        await trio.sleep(60)
        assert client.is_closed_by_server
        assert len(application.handled) == 1
        assert total(memory) == 0

    run(test, mode=ONE_QUEUE, unsent_bytes_max=5000)


def test_a_half_closed_client_that_reads_slowly_is_answered():
    """It takes longer than a client that reads nothing may, because it makes progress."""

    async def test(memory, application):
        client = await memory.connect(capacity_bytes=1000)
        client.send(*[b"b"] * 10)
        client.half_close()
        for _ in range(10):
            assert await client.receive()
            await trio.sleep(1.2)

    run(test, mode=ONE_QUEUE, unsent_bytes_max=5000)


def test_a_half_closed_client_whose_request_waits_for_a_handler_is_answered_however_long_that_takes():
    async def test(memory, application):
        client = await memory.connect(capacity_bytes=1000)
        client.send(b"b", b"s")
        client.half_close()
        await wait_all_tasks_blocked()
        release = paused_turns(memory)
        assert len(await client.receive()) == 10_000
        await trio.sleep(3 * CLOSE_FLUSH_SECONDS)
        release.set()
        assert await client.receive() == b"s"

    run(test, mode=ONE_QUEUE, unsent_bytes_max=5000)


def test_a_conversation_s_replies_count_too():
    async def test(memory, application):
        client = await memory.connect(capacity_bytes=5)
        await wait_all_tasks_blocked()
        connection_of(memory).send_reply((b"0123456789",), is_last=False)
        await wait_all_tasks_blocked()
        assert connection_of(memory).unsent_bytes == 9
        assert await client.receive() == b"0123456789"
        await wait_all_tasks_blocked()
        assert connection_of(memory).unsent_bytes == 0

    run(test)


def test_response_room_bytes():
    budget = ResponseBudget(100)
    one, other = UnsentResponses(budget), UnsentResponses(budget)
    assert one.room_bytes(60) == 100
    assert not one.update(20, 60)
    assert (one.room_bytes(60), other.room_bytes(60)) == (40, 80)
    assert (one.update(59, 60), one.has_room(60)) == (False, True)
    assert (one.update(60, 60), one.has_room(60)) == (True, False)
    assert one.update(70, 60)
    assert one.update(71, 60)
    assert not one.update(71, 60)
    assert not one.update(70, 60)  # some bytes were sent
    assert one.update(71, 60)
    assert (one.room_bytes(60), other.room_bytes(60)) == (0, 29)
    assert not one.has_room(60)
    assert other.has_room(60)
    assert other.update(29, 60)  # the common bound is reached
    assert (other.room_bytes(60), other.has_room(60)) == (0, False)
    assert UnsentResponses(budget).room_bytes(60) == 1  # always at least 1 without unsent bytes
    assert not one.update(0, 60)
    assert other.has_room(60)
    other.abandon()
    assert (budget.bytes_held, budget.room_bytes, other.size_bytes) == (0, 100, 0)
    one.defer(Request(None, 0, b"u", 0))
    one.abandon()
    assert (one.must_wait, other.must_wait) == (True, False)  # while requests are deferred, later ones do not start


def test_the_bound_of_all_may_change():
    budget = ResponseBudget(100)
    one = UnsentResponses(budget)
    one.update(50, 60)
    budget.bytes_max = 10
    assert not one.has_room(60)
    assert budget.room_bytes == 0


@each_row(
    "is_full, is_deferred, others, must_wait",
    [
        (full, deferred, others, full or deferred or others)
        for full in (0, 1)
        for deferred in (0, 1)
        for others in (0, 1)
    ],
    ids=[f"{number:03b}" for number in range(8)],
)
def test_after_an_unfinished_request_later_ones_wait_for_room_and_for_other_unfinished_ones(
    is_full, is_deferred, others, must_wait
):
    unsent, ended = UnsentResponses(ResponseBudget(100)), []
    unsent.begin_work(ended.append)
    assert unsent.must_wait
    assert not unsent.has_room(60)
    if others:
        unsent.begin_work(print)
    if is_full:
        unsent.update(70, 60)
    if is_deferred:
        unsent.defer(Request(None, 0, b"u", 0))
    unsent.end_work(ended.append)
    assert (unsent.must_wait, unsent.is_full) == (bool(must_wait), bool(is_full or is_deferred))
    if is_deferred:
        unsent.take()
    unsent.emptied()
    assert (unsent.must_wait, unsent.is_full) == (bool(others), False)


def test_keep_bound_returns_the_connections_closed_by_this_call():
    budget, closed = ResponseBudget(25), []

    class Blocked:
        def close(self):
            budget.bytes_held -= 10
            closed.append(self)

    def begin(count):
        made = [Blocked() for _ in range(count)]
        for connection in made:
            budget.bytes_held += 10
            budget.begin_blocked(connection)
        return made

    first = begin(4)
    assert budget.keep_bound() == 2
    assert closed == first[:2], "those that have taken nothing for longest"
    assert budget.keep_bound() == 0
    begin(1)
    assert budget.keep_bound() == 1
    assert budget.statistics() == (20, 25, 3)
    budget.end_blocked(first[3])
    (last,) = begin(1)
    begin(1)
    assert budget.keep_bound() == 2
    assert first[3] not in closed, "its client has taken everything"
    assert last in closed
