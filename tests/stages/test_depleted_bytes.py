"""While clients use up the byte budget, small requests are served and parked requests return their bytes."""

import pytest

from stages.connection import Connection
from stages.mode import MODES
from stages.mute import MuteReason
from stages.request import FRAME_KEPT_BYTES, Parked, Send
from stages.request_channel import SMALL_PART
from stages.timeline import now_ns
from tests.stages.listening_bench import SETTLED, ByFirstByte, run

SMALL_BYTES = 10
BYTES_MAX = SMALL_BYTES * SMALL_PART
both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


async def deplete(serving):
    """Return a client whose request holds more than the budget until it is answered."""
    client = await serving.served()
    client.send(b"p" + bytes(BYTES_MAX))
    await SETTLED()
    return serving.application.parked[-1]


@both_modes
def test_a_small_request_of_a_connection_with_nothing_unanswered_is_served(mode):
    async def test(serving):
        holding = await deplete(serving)
        client = await serving.served()
        for number in range(3):
            await serving.ask(client, b"%d" % number)
        holding.complete(Send(b""))

    run(test, mode=mode, bytes_max=BYTES_MAX)


def test_of_several_small_requests_each_is_admitted_when_the_one_before_is_answered():
    async def test(serving):
        holding = await deplete(serving)
        client = await serving.served()
        client.send(*[b"p".ljust(SMALL_BYTES)] * 3)
        for number in (1, 2, 3):
            await SETTLED()
            assert len(serving.application.parked) == 1 + number
            assert (MuteReason.QUEUED_BYTES in serving.connections()[1].mute) == (number < 3)
            serving.application.parked[-1].complete(Send(b"%d" % number))
            assert await client.receive() == b"%d" % number
        holding.complete(Send(b""))

    run(test, bytes_max=BYTES_MAX)


@pytest.mark.parametrize(("size_bytes", "is_admitted"), [(BYTES_MAX - 2, True), (BYTES_MAX - 1, False)])
def test_the_budget_is_used_up_when_as_much_is_held_as_it_is(size_bytes, is_admitted):
    async def test(serving):
        client = await serving.served()
        client.send(b"p" + bytes(size_bytes), b"p")
        await SETTLED()
        assert len(serving.application.parked) == 1 + is_admitted
        assert (MuteReason.QUEUED_BYTES in serving.connections()[0].mute) != is_admitted
        serving.application.parked[0].complete(Send(b""))
        await SETTLED()
        serving.application.parked[1].complete(Send(b""))

    run(test, bytes_max=BYTES_MAX)


@pytest.mark.parametrize(
    ("is_resumed", "reason"), [(True, MuteReason.QUEUED_BYTES), (False, MuteReason.QUEUE_FULL)], ids=["resumed", "not"]
)
def test_a_connection_with_room_in_its_queue_waits_for_bytes_only(is_resumed, reason):
    class Other:
        def resume(self, reason):
            return False

    async def test(serving):
        client = await serving.served()
        (connection,) = serving.connections()
        queue, other = connection.admission.queue, Other()
        queue.wait_for_room(other)
        connection.admission.hold(b"s", is_resumed=is_resumed)
        assert connection.mute.reasons == {reason}
        queue.resume_waiters()
        serving.server.channel.set_bytes_max(BYTES_MAX)
        assert not connection.mute
        client.send(b"s2")
        assert await client.receive() == b"s"
        assert await client.receive() == b"s2"

    run(test, bytes_max=BYTES_MAX)


def test_a_larger_request_waits_for_the_budget_which_counts_as_depleted():
    async def test(serving):
        holding = await deplete(serving)
        client = await serving.served()
        larger, channel = b"x" * (SMALL_BYTES + 1), serving.server.channel
        assert channel.depleted_ns == 0
        began_ns = now_ns()
        client.send(larger)
        await SETTLED()
        assert MuteReason.QUEUED_BYTES in serving.connections()[1].mute
        holding.complete(Send(b""))
        assert await client.receive() == larger
        depleted_ns = channel.depleted_ns
        assert 0 < depleted_ns <= now_ns() - began_ns
        assert channel.depleted_ns == depleted_ns, "it is over"

    run(test, bytes_max=BYTES_MAX)


@pytest.mark.parametrize("end", [Connection.close, Connection.stop_reading])
def test_the_budget_counts_as_depleted_no_longer_when_the_only_connection_that_waits_for_it_ends(end):
    async def test(serving):
        holding = await deplete(serving)
        client, channel = await serving.served(), serving.server.channel
        client.send(b"s" * 100)
        await SETTLED()
        connection = serving.connections()[1]
        assert MuteReason.QUEUED_BYTES in connection.mute
        end(connection)
        await SETTLED()
        depleted_ns = channel.depleted_ns
        assert depleted_ns > 0
        assert channel.depleted_ns == depleted_ns
        holding.complete(Send(b""))

    run(test, bytes_max=BYTES_MAX)


def test_a_client_that_stops_waiting_with_a_small_request_leaves_no_waiter():
    async def test(serving):
        holding = await deplete(serving)
        client = await serving.served()
        client.send(b"p1", b"p2")
        await SETTLED()
        client.reset()
        await SETTLED()
        other = await serving.served()
        other.send(b"x" * 100)
        holding.complete(Send(b""))
        assert await other.receive() == b"x" * 100

    run(test, bytes_max=BYTES_MAX)


def test_a_small_request_that_needs_no_budget_stops_waiting_and_the_next_waiter_has_its_turn():
    async def test(serving):
        holding = await deplete(serving)
        client, other = await serving.served(), await serving.served()
        client.send(b"p1", b"p2")
        await SETTLED()
        other.send(b"x" * 100)
        await SETTLED()
        serving.application.parked[1].complete(Send(b""))
        await SETTLED()
        assert bytes(serving.application.parked[-1].frame) == b"p2"
        holding.complete(Send(b""))
        assert await other.receive() == b"x" * 100
        serving.application.parked[-1].complete(Send(b""))

    run(test, bytes_max=BYTES_MAX)


class WithoutFrames(ByFirstByte):
    def handle(self, request):
        result = super().handle(request)
        return Parked(needs_frame=False) if type(result) is Parked else result


def test_a_request_parked_without_its_frame_returns_its_bytes(monkeypatch):
    monkeypatch.setattr("tests.stages.listening_bench.ByFirstByte", WithoutFrames)

    async def test(serving):
        holding = await deplete(serving)
        assert (holding.size_bytes, len(holding.frame), holding.is_cut) == (FRAME_KEPT_BYTES, FRAME_KEPT_BYTES, True)
        assert serving.server.channel.bytes_held == FRAME_KEPT_BYTES
        client = await serving.served()
        await serving.ask(client, b"x" * 100)
        holding.complete(Send(b"done"))

    run(test, bytes_max=BYTES_MAX)


def test_the_short_frame_of_a_parked_request_stays_whole(monkeypatch):
    monkeypatch.setattr("tests.stages.listening_bench.ByFirstByte", WithoutFrames)

    async def test(serving):
        client = await serving.served()
        client.send(b"p" + bytes(FRAME_KEPT_BYTES - 1))
        await SETTLED()
        (parked,) = serving.application.parked
        assert (len(parked.frame), parked.is_cut) == (FRAME_KEPT_BYTES, False)
        parked.complete(Send(b""))

    run(test)


@pytest.mark.parametrize(("in_flight", "rest"), [(1, bytes(SMALL_BYTES)), (2, b"")], ids=["larger", "not the only one"])
def test_a_large_request_keeps_waiting_after_the_earlier_one_is_answered(in_flight, rest):
    async def test(serving):
        client, other = await serving.served(), await serving.served()
        client.send(*[b"p"] * in_flight)
        await SETTLED()
        holding = await deplete(serving)
        for one, name in ((client, b"p1"), (other, b"p2" + bytes(SMALL_BYTES))):
            one.send(name + rest)
            await SETTLED()
        before = serving.application.parked[:in_flight]
        before.pop(0).complete(Send(b""))
        await SETTLED()
        holding.complete(Send(b""))
        for name in (b"p1", b"p2"):
            await SETTLED()
            assert bytes(serving.application.parked[-1].frame[:2]) == name
            for request in (*before, serving.application.parked[-1]):
                request.complete(Send(b""))
            before.clear()

    run(test, bytes_max=BYTES_MAX)


def test_a_closed_connection_returns_the_bytes_of_responses_that_wait_for_an_earlier_one():
    async def test(serving):
        client = await serving.served()
        client.send(b"parked" + bytes(9), b"answered" + bytes(19))
        await SETTLED()
        (connection,) = serving.connections()
        assert serving.server.channel.bytes_held > 0
        connection.close()
        assert serving.server.channel.bytes_held == 0

    run(test)
