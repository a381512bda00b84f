"""Viewers: nothing is observed without one, all get the same events, a slow one is dropped."""

import pytest
import trio
import trio.testing

from pipeline_broker.dashboard.viewers import BEAT_SECONDS, VIEWER_EVENTS_MAX, VIEWERS_MAX, TooManyViewersError, Viewers


class Observation:
    """Records when watching starts and ends, and renders an event per beat."""

    def __init__(self):
        self.story = []
        self.beats = 0
        self.viewers = Viewers(lambda: self.story.append("begin"), lambda: self.story.append("end"), self.render)

    def render(self, kinds):
        self.beats += 1
        yield
        return {kind: f"{kind} {self.beats}".encode() for kind in kinds}


def with_viewers(scenario):
    async def main():
        observation = Observation()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(observation.viewers.run)
            await scenario(observation)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_observing_begins_with_the_first_viewer_and_ends_with_the_last():
    async def scenario(observation):
        viewers = observation.viewers
        await trio.sleep(10 * BEAT_SECONDS)
        assert (observation.story, observation.beats) == ([], 0)
        async with viewers.watching("pipeline") as events:
            async with viewers.watching("requests") as others:
                assert (await events.receive(), await others.receive()) == (b"pipeline 1", b"requests 1")
            assert observation.story == ["begin"]
        assert observation.story == ["begin", "end"]
        await trio.sleep(10 * BEAT_SECONDS)
        assert observation.beats == 1
        async with viewers.watching("pipeline") as events:
            await events.receive()
        assert observation.story == ["begin", "end"] * 2

    with_viewers(scenario)


def test_requests_in_the_rest_of_a_beat_are_not_observed():

    async def scenario(observation):
        viewers, times = observation.viewers, []
        viewers._rest = lambda: times.append(trio.current_time())
        async with viewers.watching("pipeline") as events:
            began = trio.current_time()
            await events.receive()
            assert times == [], "the whole beat is watched by default"
            viewers.watching_seconds = BEAT_SECONDS / 4
            await events.receive()
            await events.receive()
            assert trio.current_time() == pytest.approx(began + 3 * BEAT_SECONDS)
        assert times == pytest.approx([began + 2.25 * BEAT_SECONDS])

    with_viewers(scenario)


def test_a_viewer_that_takes_no_events_is_dropped_without_affecting_others():
    async def slow(viewers):
        async with viewers.watching("pipeline"):
            await trio.sleep_forever()

    async def scenario(observation):
        viewers = observation.viewers
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow, viewers)
            async with viewers.watching("pipeline") as events:
                received = [await events.receive() for _ in range(3 * VIEWER_EVENTS_MAX)]
        assert received == [f"pipeline {beat + 1}".encode() for beat in range(3 * VIEWER_EVENTS_MAX)]
        assert (viewers.dropped, len(viewers)) == (1, 0)

    with_viewers(scenario)


def test_viewers_are_bounded():
    async def watch(viewers, *, task_status):
        async with viewers.watching("pipeline") as events:
            task_status.started()
            async for _ in events:
                pass

    async def scenario(observation):
        async with trio.open_nursery() as nursery:
            for _ in range(VIEWERS_MAX):
                await nursery.start(watch, observation.viewers)
            with pytest.raises(TooManyViewersError):
                async with observation.viewers.watching("pipeline"):
                    pass
            nursery.cancel_scope.cancel()
        assert observation.story == ["begin", "end"]

    with_viewers(scenario)


def test_an_error_in_render_ends_no_viewer(caplog):
    async def scenario(observation):
        made = observation.render
        events_of = iter([None, made])

        def render(kinds):
            render_now = next(events_of, made)
            if render_now is None:
                raise ZeroDivisionError
            return render_now(kinds)

        observation.viewers._render = render
        async with observation.viewers.watching("pipeline") as events:
            assert await events.receive() == b"pipeline 1"

    with_viewers(scenario)
    assert "ZeroDivisionError" in caplog.text
