"""Work of a library in a thread ends in time, and the thread is as good as new."""

import contextlib
import threading
import time

import pytest
import trio

from pipeline_broker.node.bounded_work import TookTooLongError, run_bounded

FOREVER_SECONDS = 60


def busy():
    deadline = time.monotonic() + FOREVER_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception):  # as libraries do
            sum(range(100))


def run(main):
    async def bounded():
        with trio.fail_after(FOREVER_SECONDS / 2):
            return await main()

    return trio.run(bounded)


def test_what_work_finds_or_raises_is_passed_on():
    async def main():
        threads = trio.CapacityLimiter(1)
        with pytest.raises(ZeroDivisionError):
            await run_bounded(lambda: 1 // 0, 10, threads)
        return await run_bounded(lambda: 7, 10, threads)

    assert run(main) == 7


def test_work_that_takes_too_long_is_ended_and_gives_its_thread_back():
    async def main():
        threads = trio.CapacityLimiter(1)
        for _ in range(3):
            with pytest.raises(TookTooLongError):
                await run_bounded(busy, 0.05, threads)
            assert await run_bounded(threading.get_ident, 10, threads)

    run(main)


def test_work_that_loses_the_first_exception_is_ended_by_a_further_one():
    """As a finalizer does that runs at that moment; also behind the end of the loop."""
    lost, ended = [], threading.Event()

    def work():
        try:
            while len(lost) < 2:
                try:
                    busy()
                except BaseException as error:  # noqa: BLE001 - as a finalizer
                    lost.append(error)
            busy()
        finally:
            ended.set()

    async def main():
        with pytest.raises(TookTooLongError):
            await run_bounded(work, 0.05, trio.CapacityLimiter(1))

    run(main)
    assert ended.wait(FOREVER_SECONDS / 2)
    assert len(lost) == 2


def test_work_whose_client_is_gone_is_ended_too():
    async def main():
        threads = trio.CapacityLimiter(1)
        with trio.move_on_after(0.05):
            await run_bounded(busy, FOREVER_SECONDS, threads)
        return await run_bounded(lambda: 7, 10, threads)

    assert run(main) == 7


def test_work_that_waits_for_a_thread_until_its_time_is_over_never_begins():
    async def main():
        threads, begun = trio.CapacityLimiter(1), []
        await threads.acquire_on_behalf_of("somebody")
        with pytest.raises(TookTooLongError):
            await run_bounded(lambda: begun.append(1), 0.05, threads)
        threads.release_on_behalf_of("somebody")
        return begun

    assert run(main) == []
