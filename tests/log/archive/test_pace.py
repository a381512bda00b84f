"""Work that nobody waits for pauses; a wait is as good as a pause, and both are moments to end it."""

import time

from pipeline_broker.log.archive import pace as tested
from pipeline_broker.log.archive.pace import Pace


def test_work_pauses_and_looks_whether_it_is_to_end(monkeypatch):
    monkeypatch.setattr(tested, "PAUSE_SECONDS", 0.02)
    looks = []
    pace = Pace(lambda: looks.append(None))
    began = time.monotonic()
    end_ns = time.thread_time_ns() + 4 * tested.WORK_NS
    while time.thread_time_ns() < end_ns:
        pace()
    assert looks
    assert time.monotonic() - began >= 0.02


def test_what_waits_does_not_pause_as_well_but_looks_whether_it_is_to_end(monkeypatch):
    monkeypatch.setattr(tested, "PAUSE_SECONDS", 20.0)
    looks = []
    pace = Pace(lambda: looks.append(None))
    began = time.monotonic()
    for _ in range(3):
        time.sleep(2 * tested.WORK_NS / 1e9)
        pace()
    assert len(looks) == 3
    assert time.monotonic() - began < 20.0
