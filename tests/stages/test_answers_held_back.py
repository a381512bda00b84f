"""Tools for client tests: an application may look at a response, hold it back, or hold a queue."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from stages.mode import CLASSIC, PIPELINED
from stages.mute import MuteReason
from stages.request import NO_OP, PARKED, Close, NoOp, Parked, Pending, QueueHeldError, Request, Send
from stages.testing.memory_server import open_memory_server
from stages.testing.memory_storage import MemoryStorage
from tests.stages.connection_bench import ONE_QUEUE, ByHand, connection_of, limits, paused_turns, run
from tests.stages.test_callbacks import Stamps, stopped_clock

both_modes = pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)


class Asking(ByHand):
    """Sets `before_answer` on every request; `results` are the results of the handler by first byte."""

    def __init__(self, ask, **results):
        super().__init__()
        self.ask = ask
        self.results = results

    def handle(self, request):
        request.before_answer = self.ask
        result = self.results.get(chr(request.frame[0]))
        return super().handle(request) if result is None else result


def replaced(request, result):
    return Send(b"in place of " + type(result).__name__.encode())


@both_modes
@pytest.mark.parametrize(
    "result",
    [
        Send(b"answer"),
        NoOp(),
        Close("closed"),
        Pending([b"x"], Send(b"answer")),
        Parked(lambda: Send(b"answer")),
        Parked(lambda: b"work", then=Send),
    ],
    ids=["send", "no-op", "close", "pending", "work", "then"],
)
def test_before_answer_is_called_with_every_final_result(mode, result):
    async def main():
        application = Asking(replaced, x=result)
        async with open_memory_server(mode, application, storage=MemoryStorage(), limits=limits()) as memory:
            client = await memory.connect()
            client.send(b"x")
            expected = {NoOp: b"NoOp", Close: b"Close"}.get(type(result), b"Send")
            assert await client.receive() == b"in place of " + expected

    trio.run(main)


@both_modes
def test_a_held_back_response_keeps_its_slot_and_counts_as_unsent(mode):
    held = []

    def hold(request, result):
        if request.sequence:
            return result
        held.append((request, result))
        return None

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"b", b"s1", b"s2")
        await wait_all_tasks_blocked()
        assert connection_of(memory).unsent_bytes >= 10_000
        ((request, result),) = held
        request.complete(result)
        assert [len(each) for each in await client.receive_count(3)] == [10_000, 2, 2]
        await wait_all_tasks_blocked()
        assert connection_of(memory).unsent_bytes == 0

    run(test, mode=mode, application=Asking(hold))


def test_an_error_in_before_answer_closes_the_connection():
    def fail(request, result):
        raise ValueError("no")

    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send(b"s")
        assert await client.receive_all() == []
        application.ask = None
        other.send(b"s")
        assert await other.receive() == b"s"

    run(test, application=Asking(fail))


@both_modes
def test_the_last_bytes_of_a_close_leave_unframed_after_earlier_responses(mode):
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"s", b"x", b"s")
        received = b""
        while data := await client.receive_bytes():
            received += data
        assert received == b"\x00\x00\x00\x01s" + b"\x00\x00\x00"
        slow = await memory.connect(capacity_bytes=2)
        slow.send(b"x")
        await wait_all_tasks_blocked()
        assert connection_of(memory).unsent_bytes == 1
        assert await slow.receive_bytes() == b"\x00\x00"

    run(test, mode=mode, application=Asking(lambda request, result: result, x=Close("cut", b"\x00\x00\x00")))


def test_an_expected_response_counts_once_even_with_before_answer():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"x", b"x")
        await wait_all_tasks_blocked()
        connection = connection_of(memory)
        assert connection.unsent_bytes == 2000
        for _ in range(2):
            connection.order.head.complete(Send(b"answer"))
        assert await client.receive_count(2) == [b"in place of Send"] * 2
        await wait_all_tasks_blocked()
        assert connection.unsent_bytes == 0

    run(test, application=Asking(replaced, x=Parked(response_bytes=1000)))


class Holding(ByHand):
    """Holds the queue at each request that begins with `h`; the second byte is the number of times."""

    def __init__(self):
        super().__init__()
        self.waiting, self.met = [], {}

    def handle(self, request):
        frame = bytes(request.frame)
        if frame[:1] == b"h" and self.met.get(frame, 0) < int(frame[1:2]):
            self.met[frame] = self.met.get(frame, 0) + 1
            raise QueueHeldError(self.waiting.append)
        if frame[:1] == b"p":
            self.handled.append(frame)
            return Pending([frame], Send(frame))
        return super().handle(request) if frame[:1] != b"h" else self.started(frame)

    def started(self, frame):
        self.handled.append(frame)
        return Send(frame)


@pytest.mark.parametrize("mode", [CLASSIC, ONE_QUEUE], ids=lambda mode: mode.name)
def test_a_held_queue_starts_nothing_and_resumes_at_the_held_request(mode):
    """Earlier decisions of the same turn are committed and answered."""

    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send(b"p0", b"h2", b"s1", b"s2")
        assert await client.receive() == b"p0"
        await wait_all_tasks_blocked()
        other.send(b"s3")
        for _ in range(2):
            await wait_all_tasks_blocked()
            assert application.handled == [b"p0"]
            application.waiting.pop()()
        assert await client.receive_count(3) == [b"h2", b"s1", b"s2"]
        assert await other.receive() == b"s3"
        assert application.handled[:2] == [b"p0", b"h2"]
        assert memory.server.statistics().handlers.handled == 5

    run(test, mode=mode, application=Holding())


def test_earlier_responses_of_the_turn_that_holds_the_queue_leave_at_once():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"s0", b"h1")
        assert await client.receive() == b"s0"
        application.waiting.pop()()
        assert await client.receive() == b"h1"

    run(test, mode=ONE_QUEUE, application=Holding())


def test_a_waiting_connection_takes_the_room_of_the_held_request():
    async def test(memory, application):
        release = paused_turns(memory)
        clients = [await memory.connect() for _ in range(2)]
        for client, payload in zip(clients, (b"h1", b"s1"), strict=True):
            client.send(payload)
            await wait_all_tasks_blocked()
        (queue,) = memory.server.channel.queues
        assert connection_of(memory, 1).mute.reasons == {MuteReason.QUEUE_FULL}
        release.set()
        await wait_all_tasks_blocked()
        assert queue.is_held
        assert not connection_of(memory, 1).mute
        assert [bytes(request.frame) for request in queue.requests] == [b"s1"]
        application.waiting.pop()()
        assert [await client.receive() for client in clients] == [b"h1", b"s1"]

    run(test, mode=ONE_QUEUE, application=Holding(), requests_max=1)


def test_a_request_that_holds_its_queue_is_called_back_after_its_start():
    """The callback must wait: the request is not being handled."""

    class ParksThen(Holding):
        def started(self, frame):
            super().started(frame)
            return PARKED

    async def test(memory, application):
        client = await memory.connect()
        client.send(b"h1")
        await wait_all_tasks_blocked()
        request = connection_of(memory).order.head
        request.connection.call_back(request, lambda: Send(b"after %d" % len(application.handled)))
        await wait_all_tasks_blocked()
        assert client.unread_bytes == 0
        application.waiting.pop()()
        assert await client.receive() == b"after 1"

    run(test, mode=ONE_QUEUE, application=ParksThen())


def test_entries_of_parked_work_are_committed_while_the_queue_is_held():
    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send(b"1")
        other.send(b"h1")
        await wait_all_tasks_blocked()
        application.parked[0].complete(Pending([b"1"], Send(b"durable")))
        assert await client.receive() == b"durable"
        application.waiting.pop()()
        assert await other.receive() == b"h1"

    run(test, mode=ONE_QUEUE, application=Holding())


def test_a_held_queue_delays_no_other_queue():
    async def test(memory, application):
        clients = [await memory.connect() for _ in range(20)]
        clients[0].send(b"h1")
        await wait_all_tasks_blocked()
        queue_of = {one.index: one.admission.queue for one in memory.server.processors[0].connections}
        others = [client for index, client in enumerate(clients) if queue_of[index] is not queue_of[0]]
        assert others
        for client in others:
            client.send(b"s")
            assert await client.receive() == b"s"
        application.waiting.pop()()
        assert await clients[0].receive() == b"h1"

    run(test, application=Holding())


def test_a_held_queue_resumes_after_its_connection_closes():
    async def test(memory, application):
        client, other = await memory.connect(), await memory.connect()
        client.send(b"h1", b"s1")
        await wait_all_tasks_blocked()
        client.reset()
        await wait_all_tasks_blocked()
        other.send(b"s2")
        application.waiting.pop()()
        assert await other.receive() == b"s2"

    run(test, mode=ONE_QUEUE, application=Holding())


def test_a_deferred_request_may_hold_its_queue_and_starts_first():
    async def test(memory, application):
        client = await memory.connect(capacity_bytes=1000)
        client.send(*[b"b"] * 4, b"h1", b"s1", b"s2")
        await trio.sleep(1)
        received = [len(each) for each in await client.receive_count(4)]
        assert received == [10_000] * 4
        await wait_all_tasks_blocked()
        application.waiting.pop()()
        assert await client.receive_count(3) == [b"h1", b"s1", b"s2"]
        assert application.handled[4:] == [b"h1", b"s1", b"s2"]

    run(test, mode=ONE_QUEUE, application=Holding(), unsent_bytes_max=25_000)


def test_98_the_time_of_a_request_that_held_its_queue_is_that_of_its_last_start(monkeypatch):
    """Behaviour 98: 2 ms of handling, twice, and 7 ms in between."""
    clock = stopped_clock(monkeypatch)

    class Timed(Holding):
        def handle(self, request):
            clock[0] += 2_000_000
            return super().handle(request)

    async def main():
        application, stamps = Timed(), Stamps()
        async with open_memory_server(PIPELINED, application, timeline=stamps, limits=limits()) as memory:
            client = await memory.connect()
            client.send(b"h1")
            await wait_all_tasks_blocked()
            clock[0] += 7_000_000
            application.waiting.pop()()
            assert await client.receive() == b"h1"
        (request,) = stamps.ended
        assert request.dequeued_ns - request.received_ns == 9_000_000
        assert request.handled_ns - request.dequeued_ns == 2_000_000
        assert request.decided_ns == request.handled_ns

    trio.run(main)


def test_a_callback_that_would_hold_the_queue_is_a_bug_of_its_request_alone():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"1")
        await wait_all_tasks_blocked()

        def wrong():
            raise QueueHeldError(application.waiting.append)

        request = application.parked[0]
        request.connection.call_back(request, wrong)
        assert await client.receive_all() == []

    run(test, application=Holding())


def test_a_held_back_response_takes_its_bytes_from_the_budget():
    request = Request(None, 0, b"", 0)
    for result, size_bytes in ((Send(b"12", b"3"), 3), (NO_OP, 0), (Close("why"), 0)):
        request.before_answer = lambda request, result: None
        assert request.ask_before_answer(result).response_bytes == size_bytes
