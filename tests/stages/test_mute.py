"""Reading resumes exactly when the last reason is removed; of overlapping throttles the latest end counts."""

from hypothesis import given
from hypothesis import strategies as st

from stages.mute import Mute, MuteReason

plain = st.sampled_from([reason for reason in MuteReason if reason is not MuteReason.THROTTLED])


@given(st.lists(st.tuples(st.booleans(), plain), max_size=40))
def test_the_reasons_are_a_set_and_the_last_to_go_resumes(steps):
    """Behaviour testMute."""
    mute, model = Mute(), set()
    for is_added, reason in steps:
        if is_added:
            assert mute.add(reason) == (reason not in model)
            model.add(reason)
        else:
            assert mute.discard(reason) == (model == {reason})
            model.discard(reason)
        assert bool(mute) == bool(model)
        assert mute.reasons == model
        assert (reason in mute) == (reason in model)


def test_reauthentication_mutes_even_if_other_reasons_end():
    mute = Mute()
    mute.add(MuteReason.REAUTHENTICATION)
    mute.add(MuteReason.IN_FLIGHT)
    assert not mute.discard(MuteReason.IN_FLIGHT)
    assert mute
    assert mute.discard(MuteReason.REAUTHENTICATION)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 9)), min_size=1, max_size=20))
def test_overlapping_throttles_end_with_the_latest(steps):
    """Each accepted throttle starts a timer; once all have fired the mute has ended."""
    mute, now, end, timers = Mute(), 0, float("-inf"), []

    def fire_until(limit):
        for timer in sorted(timer for timer in timers if timer <= limit):
            timers.remove(timer)
            mute.throttle_ended(timer)

    for pause, seconds in steps:
        now += pause
        fire_until(now)
        assert (MuteReason.THROTTLED in mute) == (end > now)
        if mute.throttle(now + seconds):
            timers.append(now + seconds)
        end = max(end, now + seconds)
        fire_until(now)
    fire_until(float("inf"))
    assert not mute


def test_a_throttle_in_the_past_does_not_mute():
    """Otherwise no timer would remove its reason."""
    mute = Mute()
    assert mute.throttle(10.0)
    assert mute.throttle_ended(10.0)
    assert not mute.throttle(10.0)
    assert not mute


def test_a_throttle_ends_at_its_deadline_and_not_before():
    mute = Mute()
    mute.throttle(10.0)
    assert not mute.throttle_ended(9.9)
    assert mute.throttle_ended(10.0)
