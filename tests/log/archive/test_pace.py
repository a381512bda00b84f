"""Background work pauses and calls its check."""

import time

from pipeline_broker.log.archive import pace as tested
from pipeline_broker.log.archive.pace import Pace


def test_work_pauses_and_calls_check(monkeypatch):
    monkeypatch.setattr(tested, "PAUSE_SECONDS", 0.02)
    looks = []
    pace = Pace(lambda: looks.append(None))
    began = time.monotonic()
    end_ns = time.thread_time_ns() + 4 * tested.WORK_NS
    while time.thread_time_ns() < end_ns:
        pace()
    assert looks
    assert time.monotonic() - began >= 0.02


def test_waiting_work_calls_check_without_pausing(monkeypatch):
    monkeypatch.setattr(tested, "PAUSE_SECONDS", 20.0)
    looks = []
    pace = Pace(lambda: looks.append(None))
    began = time.monotonic()
    for _ in range(3):
        time.sleep(2 * tested.WORK_NS / 1e9)
        pace()
    assert len(looks) == 3
    assert time.monotonic() - began < 20.0


class Clocks:
    """Of the world and of the thread."""

    def __init__(self):
        self.now_ns, self.worked_ns, self.pauses = 10**15, 10**9, []

    def monotonic_ns(self):
        return self.now_ns

    def thread_time_ns(self):
        return self.worked_ns

    def sleep(self, seconds):
        self.pauses.append(seconds)


def test_it_pauses_by_work_time_and_calls_check_by_wall_time(monkeypatch):
    clocks, looks = Clocks(), []
    monkeypatch.setattr(tested, "time", clocks)
    pace = Pace(lambda: looks.append(None))
    for passed_ns, work_ns, looked, paused in (
        (0, 0, 0, 0),
        (tested.WORK_NS, tested.WORK_NS, 0, 0),
        (1, 0, 1, 0),
        (tested.WORK_NS, 1, 0, 0),
        (1, 0, 1, 1),
        (tested.WORK_NS + 1, tested.WORK_NS, 1, 0),
        (tested.WORK_NS + 1, 1, 1, 1),
    ):
        clocks.now_ns += passed_ns
        clocks.worked_ns += work_ns
        before = len(looks), len(clocks.pauses)
        pace()
        assert (len(looks) - before[0], len(clocks.pauses) - before[1]) == (looked, paused)
    assert set(clocks.pauses) == {tested.PAUSE_SECONDS}
