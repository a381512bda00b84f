"""Views in steps: how much there is of what they show, clients decide, and others have their turns in between."""

import json

import pytest
import trio

from pipeline_broker.dashboard.turns import LOOKED_AT_PER_TURN, in_turns
from pipeline_broker.web.messages import HttpRequest
from tests.dashboard.board import Board


def turns_beside(run):
    """What `run()` gives, and how many turns another task had meanwhile."""

    async def main():
        turns = 0

        async def another():
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(another)
            found = await run()
            nursery.cancel_scope.cancel()
        return found, turns

    return trio.run(main)


def test_others_have_their_turn_whenever_so_much_was_looked_at_and_not_after_each_step():
    def steps(count, looked_at):
        for _ in range(count):
            yield looked_at
        return "shown"

    assert turns_beside(lambda: in_turns(steps(LOOKED_AT_PER_TURN - 1, 1))) == ("shown", 0)
    found, turns = turns_beside(lambda: in_turns(steps(40, LOOKED_AT_PER_TURN // 2)))
    assert found == "shown"
    assert 18 <= turns <= 20  # who has the first and the last turn is Trio's affair


@pytest.mark.parametrize("path", ["/api/groups", "/api/topics/t/groups"])
def test_the_offsets_of_many_groups_are_not_looked_at_in_one_turn(path):
    board, groups = Board(), 2 * LOOKED_AT_PER_TURN
    for number in range(groups):
        board.commit(f"group {number}", 0)
    board.dashboard._access = PassingAll()
    request = HttpRequest(method="GET", path=path, query={}, headers={})
    answer, turns = turns_beside(lambda: board.dashboard.answer(request))
    assert len(json.loads(answer.body)["groups"]) == groups
    assert turns >= 3


def test_the_partitions_of_many_topics_are_not_looked_at_in_one_turn():
    board, topics = Board("num.partitions=31"), LOOKED_AT_PER_TURN // 8
    for number in range(topics):
        board.desk.create_topic(f"topic-{number}")
    board.dashboard._access = PassingAll()
    request = HttpRequest(method="GET", path="/api/topics", query={}, headers={})
    answer, turns = turns_beside(lambda: board.dashboard.answer(request))
    assert len(json.loads(answer.body)["topics"]) >= topics
    assert turns >= 3


class PassingAll:
    """Lets every request pass."""

    def check(self, request, *, is_page):
        del request, is_page
