"""Whoever waits for something of an embedded broker, on its event loop and by a clock of the test."""

from pathlib import Path

import trio
import trio.testing

from pipeline_broker.embedded.core import Core
from pipeline_broker.embedded.settings import serve_options


def test_what_happens_while_somebody_looks_is_looked_at_at_once():
    """Not when it is time to look again anyway."""

    async def main():
        core = Core(serve_options("pipelined", None, Path("/embedded"), "os"), requests_max=0, in_memory=True)
        looked_at = []

        async def look():
            looked_at.append(trio.current_time())
            if len(looked_at) == 1:
                core.requests.commit_ended(None)
                return None
            return "found"

        assert await core.wait_until(look, 60.0, lambda: "nothing") == "found"
        assert looked_at[1] == looked_at[0]

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
