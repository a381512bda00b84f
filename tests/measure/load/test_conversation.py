"""A conversation ends once all exchanges are done, even if the time was too short for any request."""

import trio
import trio.testing

from pipeline_broker.measure.load.conversation import converse
from pipeline_broker.measure.load.exchange import Exchange
from pipeline_broker.measure.load.recorders import HistogramRecorder


class PaceThatEndsAtOnce:
    """A pace that ends after the conversation begins and before the connection's task starts."""

    def __init__(self):
        self.calls = 0

    def take(self, now_ns, in_flight):
        return []

    def answered(self, count, now_ns, latency_ns):
        raise AssertionError("no request was sent")

    def next_ns(self, in_flight):
        return None

    def is_over(self, now_ns):
        self.calls += 1
        return self.calls > 1


class SilentConnection:
    def send_nowait(self, data):
        assert not data

    async def receive(self):
        await trio.sleep_forever()


class NoRequests:
    error_position, read, kinds = 30, None, (0,)

    def frames(self, first_id, count):
        raise AssertionError("no request may be built")


def test_a_connection_whose_time_ends_before_its_task_starts_does_not_wait():
    async def main():
        exchange = Exchange(NoRequests(), PaceThatEndsAtOnce(), HistogramRecorder())
        with trio.fail_after(60):
            await converse([SilentConnection()], [exchange])

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
