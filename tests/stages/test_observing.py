"""The observer of a server may change while it runs, and then sees new requests, also on open connections."""

import pytest
import trio
from trio.testing import MockClock

from stages.mode import MODES, PIPELINED
from stages.mute import MuteReason
from stages.request import PARKED, Close, Pending, Send
from stages.testing.memory_server import open_memory_server
from stages.timeline import STAMPS, Timeline
from tests.stages.connection_bench import limits

both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
WITHOUT_COMMIT = [stamp for stamp in STAMPS if stamp not in {"submitted_ns", "durable_ns"}]


class Application:
    """Echoes requests; parks those that begin with p, and commits those that begin with w first."""

    def __init__(self):
        self.parked = []

    def handle(self, request):
        if bytes(request.frame).startswith(b"p"):
            self.parked.append(request)
            return PARKED
        if bytes(request.frame).startswith(b"w"):
            return Pending([bytes(request.frame)], Send(bytes(request.frame)))
        return Send(bytes(request.frame))

    def failed(self, request, error):
        return Close(str(error))

    def connection_closed(self, session):
        pass


class Observer:
    """Records all events."""

    samples_queues = times_requests = True

    def __init__(self):
        self.ended, self.dropped, self.sampled, self.mutes, self.commits = [], [], [], [], []

    def request_ended(self, request):
        self.ended.append(request)

    def request_dropped(self, request):
        self.dropped.append(request)

    def commit_ended(self, commit):
        self.commits.append(commit)

    def mute_ended(self, connection_index, reason, began_ns, ended_ns):
        self.mutes.append(reason)

    def queue_sampled(self, queue, at_ns, depth):
        self.sampled.append(depth)


def frames(observer):
    return [bytes(request.frame) for request in observer.ended]


def check_stamps(observer, names=WITHOUT_COMMIT):
    """Check that reported requests have all of these stamps, in order."""
    for request in observer.ended:
        stamps = [getattr(request, name) for name in names]
        assert stamps == sorted(stamps)
        assert stamps[0] > 0


@both_modes
def test_requests_are_reported_while_an_observer_is_set(mode):
    observer, other = Observer(), Observer()

    async def main():
        async with open_memory_server(mode, Application()) as server:
            client = await server.connect()
            for who, frame in ((None, b"1"), (observer, b"2"), (other, b"3"), (None, b"4"), (observer, b"5")):
                server.server.observe(who)
                client.send(frame)
                assert await client.receive() == frame

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert frames(observer) == [b"2", b"5"]
    assert frames(other) == [b"3"]
    assert (observer.sampled, other.sampled) == ([1, 1], [1])
    check_stamps(observer)


def test_observers_time_all_requests_by_default():
    class Hearing(Timeline):
        def request_ended(self, request):
            ended.append(bytes(request.frame))

    ended = []

    async def main():
        async with open_memory_server(PIPELINED, Application(), timeline=Hearing()) as server:
            client = await server.connect()
            client.send(b"1")
            await client.receive()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert ended == [b"1"]


@both_modes
def test_commits_are_reported_while_an_observer_is_set(mode):
    observer = Observer()

    async def main():
        async with open_memory_server(mode, Application()) as server:
            client = await server.connect()
            for who, frame in ((None, b"w1"), (observer, b"w2"), (None, b"w3"), (observer, b"w4")):
                server.server.observe(who)
                client.send(frame)
                assert await client.receive() == frame

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert [commit.entries for commit in observer.commits] == [[b"w2"], [b"w4"]]
    for commit in observer.commits:
        assert 0 < commit.started_ns <= commit.written_ns <= commit.durable_ns <= commit.completed_ns
    assert [request.commit for request in observer.ended] == [1, 3]
    check_stamps(observer, STAMPS)


@both_modes
def test_new_connections_and_processors_are_observed_too(mode):
    observer = Observer()

    async def main():
        async with open_memory_server(mode, Application()) as server:
            server.server.observe(observer)
            await server.server.resize_processors(5)
            for number in range(5):
                client = await server.connect()
                client.send(b"%d" % number)
                await client.receive()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert frames(observer) == [b"0", b"1", b"2", b"3", b"4"]


@both_modes
def test_a_request_in_flight_is_not_reported_to_a_new_observer(mode):
    """Its first stamps are missing."""
    observer, application = Observer(), Application()

    async def main():
        async with open_memory_server(mode, application) as server:
            client = await server.connect()
            client.send(b"park")
            await trio.testing.wait_all_tasks_blocked()
            server.server.observe(observer)
            application.parked[0].complete(Send(b"late"))
            assert await client.receive() == b"late"

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert observer.ended == []


def test_a_request_completed_without_an_observer_has_all_stamps_for_the_next_one():
    observer, application = Observer(), Application()

    async def main():
        async with open_memory_server(PIPELINED, application) as server:
            client = await server.connect()
            server.server.observe(observer)
            client.send(b"park 1", b"park 2")
            await trio.testing.wait_all_tasks_blocked()
            server.server.observe(None)
            application.parked[1].complete(Send(b"2"))
            server.server.observe(observer)
            application.parked[0].complete(Send(b"1"))
            assert await client.receive_count(2) == [b"1", b"2"]

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert frames(observer) == [b"park 1", b"park 2"]
    check_stamps(observer)


@pytest.mark.parametrize(
    ("sent_while", "closed_while", "is_reported"),
    [("observed", "observed", True), ("observed", "alone", False), ("alone", "observed", False)],
)
def test_a_timed_request_after_a_close_is_reported_as_dropped(sent_while, closed_while, is_reported):
    observer, application = Observer(), Application()
    timelines = {"observed": observer, "alone": None}

    async def main():
        async with open_memory_server(PIPELINED, application) as server:
            client = await server.connect()
            server.server.observe(timelines[sent_while])
            client.send(b"park 1", b"park 2")
            await trio.testing.wait_all_tasks_blocked()
            server.server.observe(timelines[closed_while])
            application.parked[1].complete(Send(b"2"))
            application.parked[0].complete(Close("enough"))
            assert await client.receive_all() == []

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert [bytes(request.frame) for request in observer.dropped].count(b"park 2") == is_reported


def test_an_observer_may_time_only_some_requests():
    """Requests received while it does are reported to the end; one that waits for an untimed one has all stamps."""
    observer, application = Observer(), Application()

    async def main():
        async with open_memory_server(PIPELINED, application) as server:
            client = await server.connect()
            server.server.observe(observer)
            for times, frame in ((False, b"park 1"), (True, b"2"), (True, b"park 3"), (False, b"4")):
                observer.times_requests = times
                client.send(frame)
                await trio.testing.wait_all_tasks_blocked()
            observer.times_requests = False
            while application.parked:
                application.parked.pop(0).complete(Send(b"late"))
                await trio.testing.wait_all_tasks_blocked()
            assert [await client.receive() for _ in range(4)] == [b"late", b"2", b"late", b"4"]

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert frames(observer) == [b"2", b"park 3"]
    check_stamps(observer)


@both_modes
def test_unread_responses_are_the_response_queue(mode):
    """They are counted while an observer is set."""
    observer = Observer()

    async def main():
        async with open_memory_server(mode, Application()) as server:
            server.server.observe(observer)
            client = await server.connect(capacity_bytes=8)
            client.send(bytes(100))
            await trio.testing.wait_all_tasks_blocked()
            waiting = [one.unsent_responses for one in server.server.statistics().processors]
            assert sum(waiting) == 1
            assert await client.receive() == bytes(100)
            await trio.testing.wait_all_tasks_blocked()
            assert not any(one.unsent_responses for one in server.server.statistics().processors)

    trio.run(main, clock=MockClock(autojump_threshold=0))


@both_modes
def test_a_sent_response_is_reported_although_the_client_does_not_read_the_next_one(mode):
    observer = Observer()

    async def main():
        async with open_memory_server(mode, Application()) as server:
            server.server.observe(observer)
            client = await server.connect(capacity_bytes=8)
            client.send(b"four", bytes(100))
            await trio.testing.wait_all_tasks_blocked()
            assert frames(observer) == [b"four"]
            await client.receive_count(2)

    trio.run(main, clock=MockClock(autojump_threshold=0))


@both_modes
def test_responses_leave_after_the_observer_is_removed(mode):
    observer = Observer()

    async def main():
        async with open_memory_server(mode, Application()) as server:
            server.server.observe(observer)
            client = await server.connect(capacity_bytes=8)
            client.send(bytes(100), b"another")
            await trio.testing.wait_all_tasks_blocked()
            server.server.observe(None)
            assert await client.receive_count(2) == [bytes(100), b"another"]

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert observer.ended == []


def test_responses_sent_at_once_never_mute_a_connection():
    observer = Observer()

    async def main():
        async with open_memory_server(PIPELINED, Application(), limits=limits(unsent_bytes_max=10)) as server:
            server.server.observe(observer)
            client = await server.connect()
            client.send(bytes(20), bytes(20))
            await client.receive_count(2)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert MuteReason.UNSENT_BYTES not in observer.mutes


@both_modes
def test_a_client_that_is_gone_with_its_response_in_flight_is_reported_once(mode):
    """Behaviour 27: the observer is told of the request as dropped, exactly once."""
    observer = Observer()

    async def main():
        async with open_memory_server(mode, Application()) as server:
            server.server.observe(observer)
            client = await server.connect(capacity_bytes=8)
            client.send(bytes(100))
            await trio.testing.wait_all_tasks_blocked()
            client.reset()
            await trio.testing.wait_all_tasks_blocked()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert (len(observer.ended), len(observer.dropped)) == (0, 1)
