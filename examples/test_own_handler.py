"""Property-test the ordering guarantees of your own handler: a small key-value store with watches.

`set` is durable before it is answered, `get` is answered at once, and `watch` is parked until the next `set` of its
key.
Run it with pytest. docs/concepts/pipeline.md explains the parts.
"""

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from stages.mode import CLASSIC, PIPELINED, Mode
from stages.request import PARKED, Close, Pending, Request, Result, Send
from stages.testing.memory_server import open_memory_server
from stages.testing.memory_storage import MemoryStorage
from stages.testing.order_checks import WatchedApplication, check_response_order, watched_response_order
from stages.testing.schedules import Schedule, ScheduleCount
from stages.testing.scripted_commits import ScriptedCommits


class KeyValueStore:
    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.watches: dict[bytes, list[Request]] = {}

    def handle(self, request: Request) -> Result:
        verb, key, *value = bytes(request.frame).split(b" ")
        if verb == b"get":
            return Send(self.values.get(key, b"nothing"))
        if verb == b"watch":
            self.watches.setdefault(key, []).append(request)
            return PARKED
        self.values[key] = value[0]  # visible to the next request of any client
        return Pending([(key, value[0])], Send(b"stored"), on_durable=lambda: self.answer_watches(key, value[0]))

    def answer_watches(self, key: bytes, value: bytes) -> None:
        for request in self.watches.pop(key, []):
            request.complete(Send(value))

    def failed(self, request: Request, error: Exception) -> Close:
        return Close(repr(error))

    def connection_closed(self, session: object) -> None: ...


async def run_example(
    mode: Mode, keys: list[bytes], commit_delays: list[float], receive_sizes: list[int], schedule: Schedule
) -> None:
    storage = MemoryStorage(key_of=lambda entry: entry[0], size_of=lambda entry: len(entry[1]))
    store = WatchedApplication(KeyValueStore(), schedule)
    async with open_memory_server(
        mode,
        store,
        storage=storage,
        executor=ScriptedCommits(commit_delays, schedule),
        response_order=watched_response_order(schedule),
    ) as memory:
        writer = await memory.connect(receive_sizes=receive_sizes)
        watcher = await memory.connect()
        watcher.send(*[b"watch " + key for key in sorted(set(keys))])
        watcher.half_close()
        for place, key in enumerate(keys):
            writer.send(b"set %b %d" % (key, place), b"get " + key)
        writer.half_close()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.receive_all)
            with trio.move_on_after(1):  # a watch that arrived after the last set of its key is never answered
                await watcher.receive_all()
            watcher.reset()
    # the writer receives responses in the order of its requests, and reads its own writes
    expected = [response for place, _ in enumerate(keys) for response in (b"stored", b"%d" % place)]
    check_response_order(expected, writer.received)
    store.check_start_order()
    assert storage.durable == [(key, b"%d" % place) for place, key in enumerate(keys)]


def test_the_order_of_responses_holds_for_every_schedule() -> None:
    count = ScheduleCount("own handler")

    @settings(deadline=None)  # a slow machine is not a failure
    @given(
        mode=st.sampled_from([CLASSIC, PIPELINED]),
        keys=st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=3, max_size=12),
        commit_delays=st.lists(st.floats(0, 0.01), min_size=1, max_size=4),
        receive_sizes=st.lists(st.integers(1, 30), max_size=3),
        _randomness=st.random_module(),  # seeds Trio's scheduling, which would otherwise be equal in all examples
    )
    def example(
        mode: Mode, keys: list[bytes], commit_delays: list[float], receive_sizes: list[int], _randomness: object
    ) -> None:
        schedule = Schedule()
        clock = MockClock(autojump_threshold=0)  # each example needs its own clock and event loop
        trio.run(run_example, mode, keys, commit_delays, receive_sizes, schedule, clock=clock)
        count.add(schedule)

    example()
    print(count)
    count.check()
