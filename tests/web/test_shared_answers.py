"""However many clients request an answer at the same time, it is built once and all get the same object."""

import http

import pytest
import trio
import trio.testing

from pipeline_broker.base.byte_budget import ByteBudget
from pipeline_broker.web.messages import Answer
from pipeline_broker.web.shared_answers import SHARED_SECONDS, SharedAnswers

CLIENTS = 20
pytestmark = pytest.mark.trio


class AnswerMaker:
    """Builds answers, and counts them."""

    def __init__(self, bytes_max=1 << 20):
        self.made = 0
        self.edges = ByteBudget(bytes_max)
        self.shared = SharedAnswers(self.edges)

    def make(self):
        self.made += 1
        body = bytes(100) + bytes([self.made])
        yield
        return Answer(status=http.HTTPStatus.OK, body=body, content_type="x")

    async def ask(self, count=1, key="key"):
        answers = []

        async def one():
            answers.append(await self.shared.get(key, self.make))

        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(one)
        return answers


async def test_simultaneous_requests_get_one_object(autojump_clock):
    kitchen = AnswerMaker()
    answers = await kitchen.ask(CLIENTS)
    assert (kitchen.made, len(answers), len({id(answer.body) for answer in answers})) == (1, CLIENTS, 1)


async def test_an_answer_is_made_again_when_it_is_old_or_something_has_changed(autojump_clock):
    kitchen = AnswerMaker()
    await kitchen.ask()
    await trio.sleep(SHARED_SECONDS * 0.9)
    await kitchen.ask()
    assert kitchen.made == 1
    await trio.sleep(SHARED_SECONDS * 0.2)
    await kitchen.ask()
    assert kitchen.made == 2
    kitchen.shared.forget()
    await kitchen.ask()
    await kitchen.ask(key="other")
    assert kitchen.made == 4


async def test_an_answer_that_was_begun_before_a_change_is_not_kept(autojump_clock):
    kitchen = AnswerMaker()

    def slow():
        kitchen.shared.forget()
        return (yield from kitchen.make())

    await kitchen.shared.get("key", slow)
    await kitchen.ask()
    assert kitchen.made == 2


async def test_a_failure_is_raised_and_the_next_request_tries_again(autojump_clock):
    kitchen = AnswerMaker()

    def fail():
        yield
        raise LookupError

    with pytest.raises(LookupError):
        await kitchen.shared.get("key", fail)
    assert len(await kitchen.ask()) == 1
    assert kitchen.shared._making == {}


async def test_a_client_that_leaves_while_its_answer_is_made_leaves_the_others_theirs(autojump_clock):
    kitchen = AnswerMaker()
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            nursery.start_soon(kitchen.ask, CLIENTS)
            scope.cancel()
            await kitchen.ask()
    assert kitchen.made == 1


async def test_kept_answers_are_charged_until_they_are_old_and_dropped_when_others_need_the_bytes(autojump_clock):
    kitchen = AnswerMaker(8 * 101)
    await kitchen.ask(key="a")
    assert kitchen.edges.size_bytes == 101
    await kitchen.ask(key="b")  # an eighth of the budget is one answer
    assert (kitchen.edges.size_bytes, kitchen.made) == (101, 2)
    await trio.sleep(2 * SHARED_SECONDS)
    await kitchen.ask(key="b")
    assert (kitchen.edges.size_bytes, kitchen.made) == (101, 3)
    for place in range(8):
        kitchen.edges.keep(f"other {place}", 100, lambda: None)
    assert len(kitchen.shared._kept) == 0
