"""Marked connections are flushed at the end of the burst, or in the next turn of the event loop."""

from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio
import trio.testing

from stages.response_sender import ResponseSender
from stages.unsent_responses import ResponseBudget
from tests.stages.connection_bench import run


class Marked:
    """A connection that records its flush, and then acts."""

    def __init__(self, name, sent, then=lambda: None):
        self.name, self.sent, self.then = name, sent, then

    def send_marked(self):
        self.sent.append(self.name)
        self.then()


class Blocked:
    def __init__(self, budget, size_bytes):
        self.budget, self.size_bytes, self.is_closed = budget, size_bytes, False
        budget.bytes_held += size_bytes
        budget.begin_blocked(self)

    def close(self):
        self.is_closed = True
        self.budget.bytes_held -= self.size_bytes


@asynccontextmanager
async def running(budget=None):
    sender = ResponseSender(budget or ResponseBudget())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender.run)
        await trio.testing.wait_all_tasks_blocked()
        yield sender
        nursery.cancel_scope.cancel()


async def turns_until(condition, turns_max=10):
    for turns in range(turns_max):
        if condition():
            return turns
        await trio.lowlevel.checkpoint()
    raise AssertionError("it does not come")


def test_the_end_of_a_burst_flushes_marked_connections_in_order():
    async def main():
        async with running() as sender:
            sent = []
            sender.begin_burst()
            sender.mark(Marked("a", sent))
            sender.mark(Marked("b", sent))
            assert not sent
            sender.end_burst()
            assert sent == ["a", "b"]

    trio.run(main)


def test_a_burst_wakes_no_task():
    async def main():
        async with running() as sender:
            sender.begin_burst()
            sender.mark(Marked("a", []))
            sender.end_burst()
            assert len(sender._wakeup) == 1

    trio.run(main)


def test_connections_marked_outside_of_a_burst_are_flushed_in_the_next_turn():
    async def main():
        async with running() as sender:
            sent = []
            sender.mark(Marked("a", sent))
            assert not sent
            assert await turns_until(lambda: sent) <= 2
            await trio.testing.wait_all_tasks_blocked()
            sender.mark(Marked("b", sent))  # and again
            assert await turns_until(lambda: len(sent) == 2) <= 2

    trio.run(main)


def test_a_burst_flushes_connections_marked_before_it():
    async def main():
        async with running() as sender:
            sent = []
            sender.mark(Marked("a", sent))
            sender.begin_burst()
            sender.end_burst()
            assert sent == ["a"]
            await trio.testing.wait_all_tasks_blocked()
            assert sent == ["a"]

    trio.run(main)


@pytest.mark.parametrize("is_burst", [True, False], ids=["in-a-burst", "by-its-task"])
def test_connections_marked_during_a_flush_are_flushed_in_the_next_turn(is_burst):
    """However long the chain of connections is whose ends complete requests of others."""

    async def main():
        async with running() as sender:
            sent = []

            def mark_next():
                sender.begin_burst()  # like a commit that completes them
                if len(sent) < 5000:
                    sender.mark(Marked(len(sent), sent, mark_next))
                sender.end_burst()

            if is_burst:
                sender.begin_burst()
            sender.mark(Marked("first", sent, mark_next))
            if is_burst:
                sender.end_burst()
                assert sent == ["first"]
            await trio.testing.wait_all_tasks_blocked()
            assert sent == ["first", *range(1, 5000)]

    trio.run(main)


def test_the_common_bound_is_enforced_after_a_flush(caplog):
    async def main():
        budget = ResponseBudget(10)
        async with running(budget) as sender:
            connections = [Blocked(budget, 8), Blocked(budget, 8)]
            sent = []
            sender.begin_burst()
            sender.mark(Marked("a", sent, lambda: sent.append(connections[0].is_closed)))
            sender.end_burst()
            assert sent == ["a", False]  # the flush itself may free the excess
            assert [connection.is_closed for connection in connections] == [True, False]

    trio.run(main)
    assert "closed 1 connections: their clients read no responses" in caplog.text


def test_other_tasks_run_while_connections_are_marked_again_and_again():
    async def main():
        async with running() as sender:
            sent, counts = [], [0]
            again = Marked("again", sent, lambda: sender.mark(again) if len(sent) < 5 else None)
            sender.mark(again)
            while counts[-1] < 5:
                await trio.lowlevel.checkpoint()
                counts.append(len(sent))
            assert max(after - before for before, after in pairwise(counts)) <= 2, "once in each pass of the loop"

    trio.run(main)


def test_the_end_of_a_burst_flushes_after_flushes_of_the_task():
    async def main():
        async with running() as sender:
            sent = []
            sender.mark(Marked("alone", sent))
            await turns_until(lambda: sent)
            sender.begin_burst()
            sender.mark(Marked("burst", sent))
            sender.end_burst()
            assert sent == ["alone", "burst"]

    trio.run(main)


def test_a_connection_is_marked_once_for_all_that_it_sends_in_a_burst():
    async def test(memory, application):
        client, sender = await memory.connect(), memory.server._sender
        client.send(b"1", b"2")
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(2):
            sender.begin_burst()
            application.answer(b"1")
            application.answer(b"2")
            assert len(sender._marked) == 1
            sender.end_burst()
            assert await client.receive_count(2) == [b"1", b"2"]
            client.send(b"1", b"2")
            await trio.testing.wait_all_tasks_blocked()
        client.reset()

    run(test)
