"""Work in worker processes: results, limits, turns, and the end of processes."""

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from pipeline_broker.node import worker_process
from pipeline_broker.node.worker_process import Workers
from pipeline_broker.schema_registry.errors import RegistryError, invalid_schema
from pipeline_broker.worker import child, work
from pipeline_broker.worker.work import BusyError, TookTooLongError, Work, WorkFailedError

SECONDS_MAX = 30
ENDLESS = Work(pow, (3, 10**9))
"""Minutes of CPU time in C code."""
OTHERS = set()


def children():
    """Return the worker processes of this process, without those of brokers that other tests keep."""
    return sorted(_all_children() - OTHERS)


def _all_children():
    found = []
    for task in Path("/proc/self/task").iterdir():
        found += (task / "children").read_text().split()
    return {int(pid) for pid in found if b"worker.child" in Path(f"/proc/{pid}/cmdline").read_bytes()}


@pytest.fixture(autouse=True)
def _others():
    OTHERS.clear()
    OTHERS.update(_all_children())


def run(main, **settings):
    async def bounded():
        workers = Workers(**settings)
        with trio.fail_after(SECONDS_MAX):
            async with workers.serving():
                return await main(workers)

    result = trio.run(bounded)
    assert children() == []
    return result


def test_a_result_is_returned_and_the_process_is_reused():
    async def main(workers):
        first = await workers.run(Work(os.getpid), "a")
        assert [first] == children()
        assert await workers.run(Work(math.sqrt, (4.0,)), "a") == 2
        assert await workers.run(Work(os.getpid), "b") == first != os.getpid()

    run(main)


def test_a_refusal_is_raised_unchanged_and_any_other_exception_as_one_line():
    async def main(workers):
        with pytest.raises(RegistryError, match="no schema") as refused:
            await workers.run(Work(_refuse), "a")
        assert refused.value.code == 42201
        with pytest.raises(WorkFailedError, match="ValueError: math domain error"):
            await workers.run(Work(math.sqrt, (-1.0,)), "a")
        assert await workers.run(Work(math.sqrt, (4.0,)), "a") == 2

    run(main)


def _refuse():
    raise invalid_schema("no schema")


def test_work_that_takes_too_long_is_ended_also_in_c_code():
    async def main(workers):
        for endless in (Work(time.sleep, (60,)), ENDLESS):
            began = time.monotonic()
            with pytest.raises(TookTooLongError):
                await workers.run(endless, "a")
            assert time.monotonic() - began < SECONDS_MAX / 2
        assert await workers.run(Work(math.sqrt, (4.0,)), "a") == 2

    run(main, seconds_max=0.3)


def test_work_that_takes_too_much_memory_fails_and_so_does_too_large_a_result():
    async def main(workers):
        with pytest.raises(WorkFailedError, match="192 MiB of memory"):
            await workers.run(Work(bytes, (child.MEMORY_BYTES_MAX,)), "a")
        with pytest.raises(WorkFailedError, match="result is larger"):
            await workers.run(Work(bytes, (work.OUTCOME_BYTES_MAX,)), "a")
        with pytest.raises(WorkFailedError, match="larger than 24 MiB"):
            await workers.run(Work(len, (bytes(work.WORK_BYTES_MAX),)), "a")
        with pytest.raises(WorkFailedError, match="ended the process"):
            await workers.run(Work(os._exit, (1,)), "a")
        assert await workers.run(Work(len, (bytes(work.WORK_BYTES_MAX // 2),)), "a") == work.WORK_BYTES_MAX // 2

    run(main)


def test_output_of_libraries_is_not_taken_for_an_outcome():
    async def main(workers):
        assert await workers.run(Work(print, ("x" * 100_000,)), "a") is None
        assert await workers.run(Work(os.write, (1, b"x")), "a") == 1
        assert await workers.run(Work(os.read, (0, 1)), "a") == b""

    run(main)


def test_short_work_does_not_wait_for_long_work(monkeypatch):
    """Three pieces of work without end wait for their time limits while another client sends short work."""
    monkeypatch.setattr(worker_process, "SHORT_SECONDS", 0.2)

    async def main(workers):
        ended = []

        async def long(number):
            await workers.run(ENDLESS, "evil")
            ended.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(long, number)
            await trio.sleep(0.1)
            for _ in range(3):
                assert await workers.run(Work(math.sqrt, (4.0,)), "honest") == 2
            assert ended == [], "the long work continues, in a process of its own"
            assert len(children()) == 2
            nursery.cancel_scope.cancel()

    run(main, seconds_max=60.0)  # the start of a process takes seconds on a busy machine


def test_work_of_a_cancelled_caller_ends_at_once():
    async def main(workers):
        with trio.move_on_after(0.2):
            await workers.run(Work(time.sleep, (60,)), "a")
        assert await workers.run(Work(math.sqrt, (4.0,)), "a") == 2

    began = time.monotonic()
    run(main)
    assert time.monotonic() - began < SECONDS_MAX / 2


def test_too_much_work_is_refused(monkeypatch):
    monkeypatch.setattr(worker_process, "WAITING_MAX", 2)

    async def main(workers):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(workers.run, Work(time.sleep, (60,)), "a")
            await trio.sleep(0.1)
            for _ in range(2):
                nursery.start_soon(workers.run, Work(time.sleep, (60,)), "a")
            await trio.sleep(0.05)
            with pytest.raises(BusyError):
                await workers.run(Work(os.getpid), "b")
            nursery.cancel_scope.cancel()

    run(main)


def test_a_process_without_work_ends_and_the_next_work_starts_another(monkeypatch):
    monkeypatch.setattr(worker_process, "IDLE_SECONDS", 0.2)

    async def main(workers):
        first = await workers.run(Work(os.getpid), "a")
        while children():
            await trio.sleep(0.05)
        assert await workers.run(Work(os.getpid), "a") != first

    run(main)


def test_the_files_of_libraries_are_removed_with_the_process():
    async def main(workers):
        return await workers.run(Work(_leave_a_file), "a")

    path = Path(run(main))
    assert not path.exists()
    assert not path.parent.exists()


def _leave_a_file():
    import tempfile

    handle, name = tempfile.mkstemp()
    os.close(handle)
    return name


def test_the_process_ends_with_a_killed_broker_even_during_work():
    program = (
        "import os, time, trio\n"
        "from pipeline_broker.node.worker_process import Workers\n"
        "from pipeline_broker.worker.work import Work\n"
        "async def main():\n"
        "    workers = Workers()\n"
        "    async with workers.serving(), trio.open_nursery() as nursery:\n"
        "        print(await workers.run(Work(os.getpid), 'a'), flush=True)\n"
        "        await workers.run(Work(pow, (3, 10**9)), 'a')\n"
        "trio.run(main)\n"
    )
    broker = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    worker = int(broker.stdout.readline())
    time.sleep(0.3)
    broker.send_signal(signal.SIGKILL)
    broker.wait()
    broker.stdout.close()
    deadline = time.monotonic() + SECONDS_MAX
    while Path(f"/proc/{worker}/cmdline").exists() and Path(f"/proc/{worker}/cmdline").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.02)
