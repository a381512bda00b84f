"""Waits on the event loop of an embedded broker, on a virtual clock."""

from pathlib import Path

import trio
import trio.testing

from pipeline_broker.embedded.core import Core
from pipeline_broker.embedded.settings import serve_options


def test_a_change_during_a_check_causes_another_check_at_once():
    """Not only at the next regular check."""

    async def main():
        core = Core([serve_options("pipelined", None, Path("/embedded"), "os")], requests_max=0, in_memory=True)
        looked_at = []

        async def check():
            looked_at.append(trio.current_time())
            if len(looked_at) == 1:
                next(iter(core.brokers)).requests.commit_ended(None)
                return None
            return "found"

        assert await core.wait_until(check, 60.0, lambda: "nothing") == "found"
        assert looked_at[1] == looked_at[0]

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
