"""A conversation ends when everything is said, also where nothing could be said in time."""

import trio
import trio.testing

from pipeline_broker.measure.load.conversation import converse
from pipeline_broker.measure.load.exchange import Exchange
from pipeline_broker.measure.load.recorders import HistogramRecorder


class PaceThatIsOverTooSoon:
    """Its time ends between the moment when the conversation begins and the first turn of the connection's task."""

    def __init__(self):
        self.asked = 0

    def take(self, now_ns, in_flight):
        return []

    def answered(self, count, now_ns, latency_ns):
        raise AssertionError("nothing was asked")

    def next_ns(self, in_flight):
        return None

    def is_over(self, now_ns):
        self.asked += 1
        return self.asked > 1


class SilentConnection:
    def send_nowait(self, data):
        assert not data

    async def receive(self):
        await trio.sleep_forever()


class NoRequests:
    error_position, read, kinds = 30, None, (0,)

    def frames(self, first_id, count):
        raise AssertionError("none is due")


def test_a_connection_whose_time_is_over_before_its_turn_waits_for_nothing():
    async def main():
        exchange = Exchange(NoRequests(), PaceThatIsOverTooSoon(), HistogramRecorder())
        with trio.fail_after(60):
            await converse([SilentConnection()], [exchange])

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
