"""The number of checks without a sign of life makes a broker silent and then hung, whatever the clock says."""

import contextlib
import logging
import os

import attrs
import pytest
import trio
import trio.testing

from pipeline_broker.node import heartbeat, supervisor
from pipeline_broker.node.heartbeat import BEAT_SECONDS, HUNG_SECONDS, SILENT_SECONDS, Silence
from pipeline_broker.security.http_security import NO_SECURITY


@attrs.define
class FakeProcess:
    pid: int = 7
    kills: int = 0

    def kill(self):
        self.kills += 1


@pytest.fixture
def machine():
    """A supervisor with two brokers, of which the second never starts up."""
    machine = supervisor._Supervisor(lambda _, __: (), 2, 0, None, lambda _: None, NO_SECURITY)
    for broker in machine.brokers:
        broker.process = FakeProcess()
    machine.brokers[0].is_ready = True
    return machine


def checks(count):
    silence = Silence()
    return [silence.count_check() for _ in range(count)], silence


def test_each_verdict_is_returned_once_at_its_bound():
    silent, hung = int(SILENT_SECONDS / BEAT_SECONDS), int(HUNG_SECONDS / BEAT_SECONDS)
    verdicts, silence = checks(2 * hung)
    assert {number: it for number, it in enumerate(verdicts, 1) if it} == {silent: "silent", hung: "hung"}
    assert silence.seconds == 2 * HUNG_SECONDS
    assert [checks(count)[1].is_long for count in (silent - 1, silent)] == [False, True]


def run_for(machine, seconds, *beats):
    """Let a supervisor check for some virtual seconds, with signs of life of its first broker at the given times."""

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(machine._check_regularly)
            for until in beats:
                await trio.sleep_until(until)
                machine.brokers[0].heard()
            await trio.sleep_until(seconds)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_silent_broker_is_shown_and_logged_once_and_is_up_again_with_its_next_sign_of_life(machine, caplog):
    run_for(machine, SILENT_SECONDS + 2.5)
    assert {node: it.is_up for node, it in machine._states().items()} == {1: False, 2: False}
    assert machine._not_ready() == "without broker 1 (not answering), 2"
    machine.brokers[0].heard()
    machine.brokers[0].heard()
    assert {node: it.is_up for node, it in machine._states().items()} == {1: True, 2: False}
    assert machine._not_ready() == "without broker 2"
    assert [record.getMessage() for record in caplog.records] == [
        "broker 1 (process 7) has not answered for 5 s. It is killed and started again after 30 s",
        "broker 1 answers again after 7 s",
    ]
    assert machine.brokers[0].process.kills == 0


def test_a_hung_broker_is_killed_once_and_one_that_starts_up_is_not(machine, caplog):
    run_for(machine, 3 * HUNG_SECONDS)
    assert [broker.process.kills for broker in machine.brokers] == [1, 0]
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.ERROR]


def test_a_sign_of_life_in_time_leaves_no_line(machine, caplog):
    run_for(machine, 3 * SILENT_SECONDS, *(number * (SILENT_SECONDS - 1.5) for number in range(1, 5)))
    assert machine._states()[1].is_up
    assert not caplog.records


def test_a_machine_that_was_suspended_as_a_whole_has_one_check_for_all_that_time(machine, caplog):
    clock = trio.testing.MockClock()

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(machine._check_regularly)
            await trio.testing.wait_all_tasks_blocked()
            clock.jump(100 * HUNG_SECONDS)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(main, clock=clock)
    assert machine.brokers[0].silence.seconds == BEAT_SECONDS
    assert not caplog.records


@pytest.fixture
def pipe(monkeypatch):
    read_end, write_end = os.pipe()
    monkeypatch.setattr(heartbeat, "STDOUT", write_end)
    yield read_end, write_end
    os.close(write_end)


def beat_for(seconds):
    async def main():
        with trio.move_on_after(seconds):
            await heartbeat.beat()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_sign_of_life_is_an_empty_line(pipe):
    beat_for(3.5 * BEAT_SECONDS)
    assert os.read(pipe[0], 100) == b"\n" * 4
    os.close(pipe[0])


def test_a_supervisor_that_does_not_read_blocks_no_broker_and_one_that_has_ended_ends_the_signs(pipe):
    os.set_blocking(pipe[1], False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe[1], bytes(4096))
    os.set_blocking(pipe[1], True)
    beat_for(2.5 * BEAT_SECONDS)
    os.close(pipe[0])
    beat_for(float("inf"))
