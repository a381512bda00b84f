"""The sampled rate and its throttle time, compared with Kafka's documentation and with a model that keeps every
event.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.quotas.rate import Rate, Windows, throttle_time_ms

WINDOWS = Windows()
EVENTS = st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 10_000)), min_size=1, max_size=60)


def test_a_first_burst_is_averaged_over_all_windows_but_one():
    """Ten full seconds are assumed: 20,000 bytes at once are 2,000 a second, not 20,000."""
    rate = Rate(WINDOWS)
    rate.record(20_000, 5_000)
    assert rate.per_second(5_000) == 2_000
    assert rate.span_ms(5_400) == 10_400


def test_the_throttle_time_reduces_the_rate_to_the_limit():
    """(observed - limit) / limit * the span of the rate."""
    rate = Rate(WINDOWS)
    rate.record(20_000, 5_000)
    assert throttle_time_ms(rate, 2_000, 5_000) == 0
    assert throttle_time_ms(rate, 1_000, 5_000) == 10_000
    assert throttle_time_ms(rate, 1_600, 5_000) == 2_500


def test_a_negative_value_cancels_an_earlier_one():
    rate = Rate(WINDOWS)
    rate.record(500, 0)
    rate.record(7_000, 200)
    rate.record(-7_000, 200)
    assert rate.per_second(200) == pytest.approx(500 / 10.2)


def test_a_rate_without_events_is_0_and_idle_after_all_windows():
    rate = Rate(WINDOWS)
    assert rate.is_idle(0)
    rate.record(1, 0)
    assert not rate.is_idle(10_999)
    assert rate.is_idle(11_000)
    assert rate.per_second(11_000) == 0


def test_the_average_of_recorded_values():
    rate = Rate(WINDOWS)
    assert rate.average(0) == 0
    for value in (10, 20, 60):
        rate.record(value, 0)
    assert rate.average(5_000) == 30
    assert rate.average(11_000) == 0


def test_a_window_ends_when_its_time_is_over():
    """An event in the millisecond in which a window ends begins the next window."""
    rate = Rate(WINDOWS)
    rate.record(1, 0)
    rate.record(2, 999)
    rate.record(4, 1_000)
    assert rate.total(11_998) == 7
    assert rate.total(11_999) == 4
    assert rate.total(12_000) == 0


def test_one_window_more_than_count_is_kept():
    """With events a window apart, the oldest of twelve is partly in the span, a thirteenth is not."""
    rate = Rate(Windows(11, 1_000))
    for second in range(12):
        rate.record(1, 1_000 * second)
    assert rate.total(11_000 - 1) == 12
    rate = Rate(Windows(2, 1_000))
    for now_ms in (0, 999, 1_000, 1_999, 2_000, 2_900, 2_950):
        rate.record(1, now_ms)
    assert rate.total(2_950) == 7
    rate.record(1, 3_000)
    assert rate.total(3_000) == 6


def test_an_unread_rate_keeps_a_bounded_number_of_windows():
    rate = Rate(Windows(3, 1_000))
    for second in range(100):
        rate.record(1, 1_000 * second)
    assert len(rate._recorded) == 4


def test_a_rate_of_fractions_returns_to_exactly_0():
    """The sum of fractions is inexact, and its error would stay for ever."""
    rate = Rate(WINDOWS)
    for second, value in enumerate((0.1, 0.2, 0.3)):
        rate.record(value, 1_000 * second)
    assert rate.total(2_000) - 0.1 - 0.2 - 0.3 != 0
    assert rate.total(20_000) == 0


def test_a_rate_without_events_spans_all_windows_but_one():
    assert Rate(WINDOWS).span_ms(123_456) == 10_000
    assert Rate(Windows(1, 1_000)).span_ms(123_456) == 1


@given(EVENTS)
def test_the_rate_equals_that_of_a_model(events):
    """The model keeps all events and begins windows by the rule of the documentation."""
    rate, now, windows = Rate(WINDOWS), 0, []
    for pause, value in events:
        now += pause
        rate.record(value, now)
        if not windows or now - windows[-1][0] >= 1_000:
            windows.append((now, []))
        windows[-1][1].append((now, value))
    counted = [(began, inside) for began, inside in windows[-12:] if now - inside[-1][0] < 11_000]
    total = sum(value for _, inside in counted for _, value in inside)
    elapsed = now - counted[0][0]
    span = elapsed + max(10 - elapsed // 1_000, 0) * 1_000
    assert rate.per_second(now) == pytest.approx(total * 1_000 / span)


@given(EVENTS, st.integers(1, 5_000))
def test_a_throttled_client_keeps_the_limit_in_every_span(events, limit):
    """Before its last request the client had waited for all earlier ones. So it gets at most the limit over the span of
    the rate plus the throttle, 12 and 11 seconds.
    """
    rate, now, sent = Rate(WINDOWS), 0, []
    for pause, value in events:
        now += pause
        rate.record(value, now)
        sent.append((now, value))
        now += throttle_time_ms(rate, limit, now)
    for began, _ in sent:
        inside = [value for at, value in sent if began <= at < began + WINDOWS.all_ms]
        assert sum(inside[:-1]) <= limit * 23.001
