"""Arriving large frames share one budget: none holds its memory forever, and every honest client finishes.

Longer than most files: the budget is tested alone and with the server that it bounds.
"""

from contextlib import contextmanager, nullcontext

import attrs
import pytest
import trio
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from stages import frames, partial_frames
from stages.admission import Admission
from stages.frames import FrameReader
from stages.mode import CLASSIC, PIPELINED
from stages.mute import Mute, MuteReason
from stages.partial_frames import BYTES_PER_SECOND_MIN, RATE_WINDOW_SECONDS, PartialFrame, PartialFrameBudget
from stages.testing.memory_server import open_memory_server
from stages.testing.schedules import Schedule
from tests.compiled import skip_if_compiled
from tests.stages.connection_bench import ByHand, connection_of, limits, run
from tests.stages.sabotage import replaced
from tests.stages.script_runner import fails, holds

MEBIBYTE = 1 << 20
FRAME_BYTES_MAX = 1000
PIECE_BYTES_MAX = 100
PATIENCE_SECONDS = 300.0
"""Virtual seconds; honest clients finish in a fraction of them."""


@contextmanager
def small_frames():
    """Scale the bounds down: frames are large above 64 bytes, buffers grow by 64 to 256 bytes, and 20 bytes/s are fast
    enough.
    """
    with (
        replaced(frames, "LARGE_FRAME_BYTES", 64),
        replaced(frames, "GROWTH_BYTES_MIN", 64),
        replaced(frames, "GROWTH_BYTES_MAX", 256),
        replaced(partial_frames, "BYTES_PER_SECOND_MIN", 20),
    ):
        yield


# The property


@attrs.frozen
class FrameScript:
    """The frames of one client, in pieces; a dishonest one ends in its way after `sent_bytes`."""

    frame_sizes: tuple
    piece_bytes: int
    pause_seconds: float
    ending: str
    sent_bytes: int


DISHONEST = ("stall", "reset", "half close", "bad size")
clients = st.builds(
    FrameScript,
    frame_sizes=st.lists(st.integers(1, FRAME_BYTES_MAX), min_size=1, max_size=3).map(tuple),
    piece_bytes=st.integers(60, PIECE_BYTES_MAX),
    pause_seconds=st.sampled_from([0.0, 0.001, 1.0]),
    ending=st.sampled_from(("honest", "honest", *DISHONEST)),
    sent_bytes=st.integers(70, 500),
)
SCRIPTS = st.tuples(st.lists(clients, min_size=3, max_size=8), st.integers(1, 1500))


@attrs.define
class Seen:
    schedule: Schedule = attrs.field(factory=Schedule)
    complaints: list = attrs.field(factory=list)
    unanswered: list = attrs.field(factory=list)
    left: object = None


async def play(memory, script, seen):
    client = await memory.connect(receive_sizes=(script.piece_bytes,))
    if script.ending == "honest":
        payloads = [b"s" * size for size in script.frame_sizes]
        stream = b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)
        with trio.move_on_after(PATIENCE_SECONDS) as patience:
            try:
                for start in range(0, len(stream), script.piece_bytes):
                    client.send_bytes(stream[start : start + script.piece_bytes])
                    await trio.sleep(script.pause_seconds)
                await client.receive_count(len(payloads))
            except (trio.BrokenResourceError, trio.EndOfChannel):
                seen.unanswered.append(f"{script} was closed")
        if patience.cancelled_caught:
            seen.unanswered.append(script)
        client.half_close()
        return
    client.send_bytes((FRAME_BYTES_MAX).to_bytes(4, "big") + bytes(script.sent_bytes))
    await trio.sleep(script.pause_seconds)
    if client.is_closed_by_server:
        return
    match script.ending:
        case "reset":
            client.reset()
        case "half close":
            client.half_close()
        case "bad size":
            client.send_bytes(bytes(FRAME_BYTES_MAX - script.sent_bytes) + b"\xff" * 4)


def watched(budget, server_of, bytes_max, seen):
    """Check the bound, and the real memory, at each step."""
    skip_if_compiled(type(budget), "take")  # at once: explaining the failure would take long
    take = budget.take

    def checked(frame, size_bytes):
        taken = take(frame, size_bytes)
        seen.schedule.note("take", frame.holder.index, size_bytes, taken)
        held = [frame.bytes_held for frame in budget._frames]
        if sum(held[1:]) > bytes_max or sum(held) != budget.statistics().bytes_held:
            seen.complaints.append(held)
        readers = [one.admission.reader for processor in server_of().processors for one in processor.connections]
        if sum(len(reader._large or b"") for reader in readers) > bytes_max + FRAME_BYTES_MAX + PIECE_BYTES_MAX * len(
            readers
        ):
            seen.complaints.append("more is buffered than counted")
        return taken

    budget.take = checked


def everybody_gets_through(example, mode=PIPELINED, sabotage=nullcontext):
    scripts, bytes_max = example
    seen = Seen()

    async def main():
        server_limits = limits(frame_bytes_max=FRAME_BYTES_MAX, partial_bytes_max=bytes_max)
        async with open_memory_server(mode, ByHand(), limits=server_limits) as memory:
            server = memory.server
            watched(server._partial_frames, lambda: server, bytes_max, seen)
            async with trio.open_nursery() as nursery:
                for script in scripts:
                    nursery.start_soon(play, memory, script, seen)
            for processor in server.processors:
                for connection in tuple(processor.connections):
                    connection.close()
            seen.left = server.statistics().partial_frames

    with small_frames(), sabotage():
        trio.run(main, clock=MockClock(autojump_threshold=0))
    assert not seen.complaints
    assert not seen.unanswered
    assert (seen.left.bytes_held, seen.left.frames, seen.left.waiting) == (0, 0, 0)
    return seen


@pytest.mark.properties
@pytest.mark.parametrize("mode", [CLASSIC, PIPELINED], ids=lambda mode: mode.name)
def test_15_large_frames_are_bounded_and_every_honest_client_gets_through(mode):
    holds(f"invariant 15, {mode.name}", SCRIPTS, lambda script: everybody_gets_through(script, mode))


def kept_room():
    """The memory of a closed connection's frame is not returned."""
    return replaced(Admission, "abandon", lambda admission: admission.reader.abandon())


def no_eldest():
    """Frames that each hold a part block each other."""
    return replaced(PartialFrameBudget, "_is_eldest", lambda budget, frame: False)


def endless_patience():
    """A stalled frame holds its memory forever."""
    return replaced(PartialFrameBudget, "slow_holders", lambda budget, now: [])


def no_budget():
    return replaced(PartialFrameBudget, "take", lambda budget, frame, size_bytes: True)


@pytest.mark.parametrize("sabotage", [kept_room, no_eldest, endless_patience, no_budget])
def test_15_fails_when_memory_is_not_counted_not_returned_or_held_forever(sabotage):
    fails(SCRIPTS, lambda script: everybody_gets_through(script, sabotage=sabotage))


# A whole server


def test_half_received_frames_hold_no_more_than_their_budget():
    async def test(memory, application):
        strangers = [await memory.connect() for _ in range(10)]
        for stranger in strangers:
            stranger.send_bytes((100 * MEBIBYTE).to_bytes(4, "big") + bytes(6 * MEBIBYTE))
        await trio.sleep(1)
        statistics = memory.server.statistics().partial_frames
        assert statistics.bytes_held <= 16 * MEBIBYTE + 8 * MEBIBYTE
        assert statistics.waiting > 0
        assert MuteReason.PARTIAL_BYTES in connection_of(memory, 9).mute
        small = await memory.connect()
        small.send(b"s" + bytes(60_000))
        assert await small.receive()  # without a wait
        large = await memory.connect()
        large.send(b"s" + bytes(MEBIBYTE))
        assert await large.receive()  # after the stalled ones before it
        assert memory.server.statistics().partial_frames.closed > 0
        for stranger in strangers:
            stranger.reset()
        await wait_all_tasks_blocked()
        assert memory.server.statistics().partial_frames.bytes_held == 0

    run(test, partial_bytes_max=16 * MEBIBYTE)


def test_a_half_closed_connection_returns_its_memory_while_its_requests_are_parked():
    async def test(memory, application):
        client = await memory.connect()
        client.send(b"parked")
        await wait_all_tasks_blocked()
        client.send_bytes((10 * MEBIBYTE).to_bytes(4, "big") + bytes(200_000))
        await wait_all_tasks_blocked()
        assert memory.server.statistics().partial_frames.bytes_held >= 200_000
        client.half_close()
        await wait_all_tasks_blocked()
        assert memory.server.statistics().partial_frames.bytes_held == 0
        application.answer(b"parked")
        assert await client.receive() == b"parked"

    run(test)


def test_small_frames_need_no_budget():
    async def test(memory, application):
        memory.server._partial_frames.take = None
        client = await memory.connect()
        client.send(*[b"s" + bytes(60_000)] * 20)
        assert len(await client.receive_count(20)) == 20

    run(test)


# The budget itself


class Holder:
    def __init__(self):
        self.resumed = 0

    def resume(self, reason):
        assert reason is MuteReason.PARTIAL_BYTES
        self.resumed += 1
        return True

    def close(self):
        raise AssertionError("the budget closes nothing itself")


def frame_of(holder=None):
    return PartialFrame(holder or Holder(), FrameReader(10), Mute())


def test_waiting_frames_are_served_in_order():
    budget = PartialFrameBudget(100)
    eldest, first, second, later = (frame_of() for _ in range(4))
    assert budget.take(eldest, 90)
    assert not budget.take(first, 50)
    assert not budget.take(second, 5)  # fits, but must wait for the first
    assert not budget.take(second, 5)  # asking again changes nothing
    assert budget.take(eldest, 200)  # never waits
    budget.release(eldest)
    assert (first.holder.resumed, second.holder.resumed) == (1, 1)
    assert (first.bytes_held, second.bytes_held) == (50, 5)
    assert not budget.take(later, 50)
    budget.release(later)
    assert budget.statistics().waiting == 0


def test_a_waiting_frame_continues_when_it_becomes_the_oldest():
    budget = PartialFrameBudget(100)
    eldest, second, third = (frame_of() for _ in range(3))
    assert budget.take(eldest, 10)
    assert budget.take(second, 30)
    assert budget.take(second, 40)
    assert budget.take(third, 50)
    assert not budget.take(third, 60)
    assert not budget.take(second, 150)
    budget.release(eldest)
    assert second.holder.resumed == 1
    assert second.bytes_held == 150


def test_a_frame_above_the_bound_passes_when_the_oldest_is_released():
    budget = PartialFrameBudget(10)
    eldest, waiting = frame_of(), frame_of()
    assert budget.take(eldest, 10)
    assert not budget.take(waiting, 11)
    budget.release(eldest)
    assert waiting.holder.resumed == 1


def test_a_larger_bound_serves_waiting_frames():
    budget = PartialFrameBudget(10)
    eldest, waiting = frame_of(), frame_of()
    assert budget.take(eldest, 10)
    assert not budget.take(waiting, 10)
    budget.set_bytes_max(20)
    assert waiting.holder.resumed == 1


@pytest.mark.parametrize(
    ("reasons", "is_closed"),
    [
        ((), True),
        ((MuteReason.UNSENT_BYTES,), True),
        ((MuteReason.QUEUE_FULL,), False),
        ((MuteReason.THROTTLED,), False),
    ],
)
def test_a_stalled_frame_loses_its_memory_unless_the_server_stalls_it(reasons, is_closed):
    budget = PartialFrameBudget(10)
    stalled, waiting = frame_of(), frame_of()
    for reason in reasons:
        stalled.mute.add(reason)
    budget.take(stalled, 10)
    assert budget.slow_holders(0.0) == []  # no frame waits
    assert not budget.take(waiting, 10)
    assert budget.slow_holders(100.0) == []  # its time begins when others wait
    assert budget.slow_holders(104.0) == []
    assert budget.slow_holders(105.0) == ([stalled.holder] if is_closed else [])


def test_a_repeated_request_for_memory_gives_no_more_time_to_the_slow_frame():
    """A waiting frame requests memory whenever its connection is woken."""
    told = []
    budget = PartialFrameBudget(10, lambda: told.append("contended"))
    stalled, waiting = frame_of(), frame_of()
    assert budget.take(stalled, 10)
    assert not budget.take(waiting, 10)
    assert budget.slow_holders(0.0) == []
    for second in range(1, 5):
        assert not budget.take(waiting, 10)
        assert budget.slow_holders(float(second)) == []
    assert not budget.take(waiting, 10)
    assert budget.slow_holders(5.0) == [stalled.holder]
    assert told == ["contended"]


def test_a_smaller_bound_applies_although_frames_hold_more():
    budget = PartialFrameBudget(100)
    eldest, second, third = (frame_of() for _ in range(3))
    assert budget.take(eldest, 40)
    assert budget.take(second, 50)
    budget.set_bytes_max(20)
    assert budget.statistics().bytes_held == 90
    budget.release(second)
    assert not budget.take(third, 30)
    budget.release(eldest)
    assert (third.holder.resumed, third.bytes_held) == (1, 30), "the eldest passes"
    assert not budget.take(frame_of(), 1)
    assert budget.statistics().bytes_max == 20


def test_a_frame_waiting_for_memory_is_not_slow_and_is_measured_after_it_got_it():
    budget = PartialFrameBudget(20)
    eldest, second, third = (frame_of() for _ in range(3))
    assert budget.take(eldest, 10)
    assert budget.take(second, 10)
    assert not budget.take(third, 10)
    assert budget.slow_holders(0.0) == []
    assert budget.take(second, 10)  # it already has that much
    assert not budget.take(second, 20)
    assert budget.slow_holders(5.0) == [eldest.holder]
    assert budget.slow_holders(50.0) == [eldest.holder]
    budget.release(eldest)
    assert second.bytes_held == 20
    assert budget.slow_holders(100.0) == []
    budget.release(third)
    assert not budget.take(frame_of(), 10)
    assert budget.slow_holders(200.0) == []
    assert budget.slow_holders(204.9) == []
    assert budget.slow_holders(205.0) == [second.holder]


def test_a_frame_that_arrives_just_as_fast_as_it_must_is_not_too_slow():
    reader, wanted = FrameReader(1 << 24), int(RATE_WINDOW_SECONDS * BYTES_PER_SECOND_MIN)
    frame = PartialFrame(Holder(), reader, Mute())
    reader.receive_data((1 << 24).to_bytes(4, "big"))
    assert reader.next_frame() is None
    assert not frame.is_slow(0.0)
    reader.receive_data(bytes(wanted))
    assert not frame.is_slow(RATE_WINDOW_SECONDS)
    reader.receive_data(bytes(wanted - 1))
    assert frame.is_slow(2 * RATE_WINDOW_SECONDS)


def test_time_in_which_the_server_does_not_read_a_frame_does_not_count():
    frame = frame_of()
    assert not frame.is_slow(0.0)
    frame.mute.add(MuteReason.IN_FLIGHT)
    assert not frame.is_slow(RATE_WINDOW_SECONDS / 2)
    frame.mute.discard(MuteReason.IN_FLIGHT)
    assert not frame.is_slow(RATE_WINDOW_SECONDS)
    assert not frame.is_slow(2 * RATE_WINDOW_SECONDS - 0.1)
    assert frame.is_slow(2 * RATE_WINDOW_SECONDS)
