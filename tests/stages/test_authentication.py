"""A connection must authenticate before its frames become requests."""

import functools

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from stages.authentication import Conversation, Reply
from stages.frames import LARGE_FRAME_BYTES
from stages.mode import CLASSIC, PIPELINED
from stages.mute import MuteReason
from stages.request import Send
from stages.testing.memory_transport import memory_connection
from tests.stages.connection_bench import ByHand, connection_of, run

both_modes = pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)
DELAY = 0.1


class Guard:
    """Continues on `hello`, succeeds on `in NAME`, and fails on anything else; `again` starts a new conversation.

    Attributes:
        seen: the frames it received, with the requests in flight at that time.
    """

    frame_bytes_max = 20

    def __init__(self):
        self.connection = None
        self.seen = []
        self.expires_at = float("inf")

    def open_session(self, connection, transport):
        connection.session = "nobody"
        self.connection = connection
        return self

    def receive(self, frame):
        frame = bytes(frame)
        self.seen.append((frame, len(self.connection.order), self.connection.unsent_bytes))
        if frame in {b"hello", b"again"}:
            return Reply(Conversation.CONTINUES, (b"who", b"?"))
        if frame.startswith(b"in "):
            self.connection.session = frame[3:].decode()
            return Reply(Conversation.SUCCEEDED, (b"welcome",))
        if frame == b"silent":
            return Reply(Conversation.FAILED)
        if frame == b"bug":
            raise ValueError(frame)
        return Reply(Conversation.FAILED, (b"no",))

    def begins(self, frame):
        return bytes(frame) == b"again"

    def has_expired(self):
        return trio.current_time() >= self.expires_at


class WhoAsks(ByHand):
    """Answers `w...` with the session immediately."""

    def handle(self, request):
        if bytes(request.frame[:1]) == b"w":
            return Send(request.connection.session.encode())
        return super().handle(request)


def counts(memory):
    return memory.server.statistics().processors[0].counters


@both_modes
def test_frames_go_to_the_authenticator_until_it_succeeded_and_nothing_is_put_on_a_queue(mode):
    async def test(memory, application):
        guard = Guard()
        client = await memory.connect(open_session=guard.open_session)
        client.send(b"hello", b"hello", b"in alice", b"w", b"hello")
        assert await client.receive_count(4) == [b"who?", b"who?", b"welcome", b"alice"]
        await wait_all_tasks_blocked()
        application.answer(b"hello")
        assert await client.receive() == b"hello"
        assert [frame for frame, *_ in guard.seen] == [b"hello", b"hello", b"in alice"]
        assert memory.server.channel.queues[0].put + sum(one.put for one in memory.server.channel.queues[1:]) == 2
        assert (counts(memory).authenticated, counts(memory).authentication_failed) == (1, 0)

    run(test, mode=mode, application=WhoAsks())


def test_a_connection_closed_during_its_handshake_gets_no_session():
    async def test(memory, application):
        guard = Guard()
        transport, _client = memory_connection()
        transport.start = functools.partial(trio.sleep, 1)
        await memory.server.connect(transport, peer="slow", listener="MEMORY", open_session=guard.open_session)
        await wait_all_tasks_blocked()
        connection_of(memory).close()
        await trio.sleep(2)
        assert guard.connection is None

    run(test)


def test_a_frame_that_waits_for_responses_to_leave_keeps_no_task_when_its_connection_is_closed():
    async def test(memory, application):
        before = trio.lowlevel.current_statistics().tasks_living
        client = await memory.connect(open_session=Guard().open_session, capacity_bytes=20)
        client.send(b"in alice", b"b", b"again")
        await wait_all_tasks_blocked()
        connection = connection_of(memory)
        assert connection.admission.gate.frame is not None
        connection.close()
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == before

    run(test)


def test_the_next_frame_waits_until_the_reply_to_the_last_has_left():
    """A client that sends and never reads holds one frame and one reply, however much it sends."""

    async def test(memory, application):
        guard = Guard()
        client = await memory.connect(open_session=guard.open_session, capacity_bytes=5)
        client.send(*[b"hello"] * 10)
        await trio.sleep(60)
        assert len(guard.seen) == 1
        assert connection_of(memory).unsent_bytes <= 8
        assert await client.receive_count(10) == [b"who?"] * 10

    run(test)


@pytest.mark.parametrize("size", [21, 100, 2**31 - 1, -1])
def test_a_frame_that_is_too_long_for_a_conversation_closes_before_it_arrives(size):
    async def test(memory, application):
        client, other = await memory.connect(open_session=Guard().open_session), await memory.connect()
        client.send_bytes(size.to_bytes(4, "big", signed=True))
        assert await client.receive_all() == []
        other.send(b"s")
        assert await other.receive() == b"s"

    run(test)


def test_the_limit_of_a_request_counts_after_the_conversation_and_that_of_the_conversation_again_in_the_next():
    async def test(memory, application):
        guard = Guard()
        client = await memory.connect(open_session=guard.open_session)
        client.send(b"in alice", b"s" + bytes(100))
        assert await client.receive_count(2) == [b"welcome", b"s" + bytes(100)]
        client.send(b"again", b"in bob" + bytes(100))
        assert await client.receive_all() == [b"who?"]

    run(test)


def test_a_large_request_after_the_conversation_releases_its_memory():
    async def test(memory, application):
        client = await memory.connect(open_session=Guard().open_session)
        large = b"s" + bytes(3 * LARGE_FRAME_BYTES)
        client.send(b"in alice", large)
        assert await client.receive_count(2) == [b"welcome", large]
        await wait_all_tasks_blocked()
        statistics = memory.server.statistics().partial_frames
        assert (statistics.frames, statistics.bytes_held) == (0, 0)

    run(test)


@both_modes
def test_a_failure_is_answered_after_the_delay_and_delays_no_other_connection(mode):
    async def test(memory, application):
        client, other = await memory.connect(open_session=Guard().open_session), await memory.connect()
        client.send(b"wrong", b"in alice", b"s")
        await wait_all_tasks_blocked()
        other.send(b"s")
        assert await other.receive() == b"s"
        assert trio.current_time() == 0
        assert client.unread_bytes == 0
        assert await client.receive_all() == [b"no"]
        assert trio.current_time() == DELAY
        assert application.handled == [b"s"]
        assert counts(memory).authentication_failed == 1

    run(test, mode=mode, failed_authentication_delay_seconds=DELAY)


def test_a_failure_without_a_reply_only_closes():
    async def test(memory, application):
        client = await memory.connect(open_session=Guard().open_session)
        client.send(b"silent")
        assert await client.receive_all() == []
        assert trio.current_time() == DELAY
        assert application.closed == ["nobody"]

    run(test, failed_authentication_delay_seconds=DELAY)


def test_frames_after_a_failure_without_a_reply_are_never_read():
    """The reply of other failures, which must leave first, holds later frames back. This failure has none."""

    async def test(memory, application):
        guard = Guard()
        client = await memory.connect(open_session=guard.open_session)
        client.send(b"silent", b"in alice", b"s")
        assert await client.receive_all() == []
        assert [frame for frame, *_ in guard.seen] == [b"silent"]
        assert application.handled == []

    run(test)


@pytest.mark.parametrize("where", ["open_session", "receive"])
def test_an_authenticator_that_raises_costs_its_own_connection_only(where, caplog):
    """Behaviour 49."""

    async def test(memory, application):
        guard = Guard()

        def open_session(connection, transport):
            if where == "open_session":
                raise ValueError(where)
            return guard.open_session(connection, transport)

        client, other = await memory.connect(open_session=open_session), await memory.connect()
        if where == "receive":
            client.send(b"bug")
        assert await client.receive_all() == []
        other.send(b"s")
        assert await other.receive() == b"s"

    run(test)
    assert [record.exc_info[0].__name__ for record in caplog.records] == ["ValueError"]


def test_a_new_conversation_waits_for_requests_in_flight_and_later_ones_run_as_the_new_identity():
    async def test(memory, application):
        guard = Guard()
        client = await memory.connect(open_session=guard.open_session)
        client.send(b"in alice")
        await client.receive()
        client.send(b"1", b"w2", b"3", b"again", b"in bob", b"w4")
        await wait_all_tasks_blocked()
        application.answer(b"3")
        await wait_all_tasks_blocked()
        assert connection_of(memory).mute.reasons == {MuteReason.REAUTHENTICATION}
        assert [frame for frame, *_ in guard.seen] == [b"in alice"]
        assert connection_of(memory).session == "alice"
        application.answer(b"1")
        responses = await client.receive_count(6)
        assert responses == [b"1", b"alice", b"3", b"who?", b"welcome", b"bob"]
        assert {in_flight for _, in_flight, _ in guard.seen} == {0}
        assert {unsent for *_, unsent in guard.seen} == {0}
        assert (counts(memory).authenticated, counts(memory).reauthenticated) == (1, 1)

    run(test, application=WhoAsks())


def test_the_held_frame_of_a_closed_connection_reaches_no_authenticator():
    async def test(memory, application):
        guard = Guard()
        client = await memory.connect(open_session=guard.open_session)
        client.send(b"in alice", b"1", b"again")
        await wait_all_tasks_blocked()
        connection_of(memory).close()
        await wait_all_tasks_blocked()
        assert [frame for frame, *_ in guard.seen] == [b"in alice"]

    run(test)


def test_a_new_conversation_that_fails_ends_the_connection():
    async def test(memory, application):
        client = await memory.connect(open_session=Guard().open_session)
        client.send(b"in alice", b"w", b"again", b"wrong", b"w")
        assert await client.receive_all() == [b"welcome", b"alice", b"who?", b"no"]
        assert counts(memory).reauthentication_failed == 1

    run(test, application=WhoAsks())


@both_modes
def test_24_25_a_request_after_the_session_expired_closes_the_connection(mode):
    """Behaviours 24, 25: whatever the conversation looks like. What was asked before is still answered."""

    async def test(memory, application):
        guard = Guard()
        client = await memory.connect(open_session=guard.open_session)
        client.send(b"in alice", b"1")
        await client.receive()
        await wait_all_tasks_blocked()
        guard.expires_at = 0.0
        client.send(b"s2", b"s3")
        await wait_all_tasks_blocked()
        application.answer(b"1")
        assert await client.receive_all() == [b"1"]
        assert application.handled == [b"1"]
        assert counts(memory).authentication_expired == 1

    run(test, mode=mode)


def test_an_expired_session_may_authenticate_again():
    async def test(memory, application):
        guard = Guard()
        client = await memory.connect(open_session=guard.open_session)
        client.send(b"in alice")
        await client.receive()
        guard.expires_at = 0.0
        client.send(b"again")
        assert await client.receive() == b"who?"
        guard.expires_at = 1.0
        client.send(b"in bob", b"w")
        assert await client.receive_count(2) == [b"welcome", b"bob"]

    run(test, application=WhoAsks())


@pytest.mark.parametrize("state", ["first", "held", "delayed"])
def test_a_server_that_stops_does_not_wait_for_a_conversation(state):
    async def test(memory, application):
        client = await memory.connect(open_session=Guard().open_session)
        if state == "first":
            client.send(b"hello")
        elif state == "delayed":
            client.send(b"wrong")
        else:
            client.send(b"in alice", b"1", b"again", b"in bob")
        await wait_all_tasks_blocked()
        memory.server.stop()
        await wait_all_tasks_blocked()
        if state == "held":
            assert not client.is_closed_by_server
            application.answer(b"1")
        responses = await client.receive_all()
        assert responses == {"first": [b"who?"], "held": [b"welcome", b"1"], "delayed": []}[state]
        assert trio.current_time() == 0

    run(test, failed_authentication_delay_seconds=DELAY)


@pytest.mark.parametrize("state", ["nothing", "half", "held", "delayed"])
def test_a_reset_within_a_conversation_frees_the_connection(state):
    async def test(memory, application):
        client = await memory.connect(open_session=Guard().open_session)
        match state:
            case "half":
                client.send_bytes(b"\0\0\0\x09abc")
            case "held":
                client.send(b"in alice", b"1", b"again", b"in bob")
            case "delayed":
                client.send(b"wrong")
        await wait_all_tasks_blocked()
        client.reset()
        if state == "held":
            application.answer(b"1")
        await trio.sleep(1)
        assert not memory.server.processors[0].connections
        assert len(application.closed) == 1

    run(test)
