"""A mute stops the reader, and the trace records the duration of each reason."""

from stages.mute import MuteReason
from stages.muting import Muting
from stages.timeline import Timeline, now_ns


class Heard(Timeline):
    def __init__(self):
        self.mutes, self.began_ns = [], []

    def mute_ended(self, connection_index, reason, began_ns, ended_ns):
        assert 0 < began_ns <= ended_ns
        self.mutes.append((connection_index, reason))
        self.began_ns.append(began_ns)


def test_closing_a_connection_reports_its_current_mutes_once():
    timeline = Heard()
    muting = Muting(7, timeline)
    muting.begin(MuteReason.QUEUE_FULL)
    muting.begin(MuteReason.IN_FLIGHT)
    muting.end(MuteReason.IN_FLIGHT)
    for _ in range(2):
        muting.end_all()
        assert timeline.mutes == [(7, MuteReason.IN_FLIGHT), (7, MuteReason.QUEUE_FULL)]


def test_a_throttle_that_ends_no_later_than_another_changes_nothing():
    muting = Muting(7, None)
    assert [muting.throttle(until) for until in (10.0, 5.0, 10.0, 10.5)] == [True, False, False, True]


def test_a_mute_that_ends_is_reported_to_a_later_observer():
    timeline, muting = Heard(), Muting(7, None)
    muting.observe(timeline)
    muting.begin(MuteReason.IN_FLIGHT)
    muting.end(MuteReason.IN_FLIGHT)
    assert timeline.mutes == [(7, MuteReason.IN_FLIGHT)]


def test_a_mute_that_began_without_an_observer_is_not_reported():
    timeline, muting = Heard(), Muting(7, None)
    muting.begin(MuteReason.IN_FLIGHT)
    muting.observe(timeline)
    muting.end(MuteReason.IN_FLIGHT)
    assert timeline.mutes == []


def test_adding_a_current_reason_keeps_its_start():
    timeline = Heard()
    muting = Muting(7, timeline)
    muting.begin(MuteReason.IN_FLIGHT)
    latest_ns = now_ns()
    while now_ns() == latest_ns:
        pass
    muting.begin(MuteReason.IN_FLIGHT)
    muting.end(MuteReason.IN_FLIGHT)
    assert timeline.began_ns[0] <= latest_ns
