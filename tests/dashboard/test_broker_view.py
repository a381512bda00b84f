import trio
from trio.testing import MockClock

from pipeline_broker.dashboard.broker_view import TURNS_SHOWN_MAX, connections
from stages.mode import PIPELINED
from stages.testing.memory_server import open_memory_server
from tests.apis.desk import Desk
from tests.stages.connection_bench import ByHand


def test_what_kept_the_event_loop_is_shown_by_api_or_task_the_longest_first():
    async def main():
        async with open_memory_server(PIPELINED, ByHand()) as memory:
            for name, seconds in ((3, 0.024), ("a task", 0.002), (3, 0.007), (999, 0.001)):
                memory.server.turns.note(name, seconds)
            assert connections(memory.server, Desk().broker)["turns"] == [
                {"turn": "Metadata", "longest_us": 24_000, "long_count": 2},
                {"turn": "a task", "longest_us": 2_000, "long_count": 0},
                {"turn": "999", "longest_us": 1_000, "long_count": 0},
                {"turn": "commit", "longest_us": 0, "long_count": 0},
            ]
            for number in range(2 * TURNS_SHOWN_MAX):
                memory.server.turns.note(f"task {number}", 0.1)
            assert len(connections(memory.server, Desk().broker)["turns"]) == TURNS_SHOWN_MAX

    trio.run(main, clock=MockClock(autojump_threshold=0))
