"""The budget of queued bytes gets back what a refused request had taken of it."""

import struct

import attrs
import pytest
import trio
from trio.testing import MockClock

from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest
from pipeline_broker.wire.registry import ApiKey
from stages.mode import MODES
from stages.socket_server import ServerLimits
from stages.testing.memory_server import open_memory_server
from tests.bad_input.raw_client import batch_of, frame_of, produce_request

BUDGET_BYTES = 4096
SECONDS_MAX = 60
WHOLE = frame_of(produce_request((0, batch_of(bytes(1000)))), 9)
REFUSED = {
    "a version that is not served": WHOLE[:2] + struct.pack(">h", 2**15 - 1) + WHOLE[4:],
    "a body of ones": struct.pack(">hhih", ApiKey.PRODUCE, 7, 1, -1) + b"\xff" * 1000,
    "no header": b"\xff" * 1000,
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("name", REFUSED)
def test_the_pool_is_full_again_after_refused_requests(dispatcher, mode, name):
    """Behaviour 76: each closes its connection; the budget would not last for all of them without what comes back."""
    frame = REFUSED[name]
    refused = 3 * BUDGET_BYTES // len(frame)

    async def main():
        limits = attrs.evolve(ServerLimits(), bytes_max=BUDGET_BYTES)
        async with open_memory_server(mode, dispatcher, limits=limits) as memory:
            with trio.fail_after(SECONDS_MAX):
                for _ in range(refused):
                    client = await memory.connect()
                    client.send(frame, frame_of(ApiVersionsRequest(), 0))
                    assert await client.receive_all() == []
                    assert memory.server.channel.bytes_held == 0
                client = await memory.connect()
                client.send(frame_of(ApiVersionsRequest(), 0))
                assert await client.receive()
            assert memory.server.channel.bytes_held == 0

    trio.run(main, clock=MockClock(autojump_threshold=0))
