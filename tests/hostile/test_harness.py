"""What counts as a fault, and what is measured again."""

import attrs
import pytest

from tests.hostile.harness import GROWTH_BYTES_MAX, NARROWLY, WAIT_MS_MAX, Cost
from tests.hostile.innocent import Scheduled, Waits, made_by_the_broker_ms

HARMLESS = Cost(
    request_bytes=1,
    answer_bytes=1,
    seconds=1.0,
    cpu_ms=1.0,
    growth_bytes=GROWTH_BYTES_MAX,
    growth_bytes_max=GROWTH_BYTES_MAX,
    waits=Waits(worst_ms=WAIT_MS_MAX, clock_ms=10 * WAIT_MS_MAX, requests=1, error=""),
    unanswered=0,
)


def waiting(milliseconds, **options):
    return attrs.evolve(HARMLESS, waits=attrs.evolve(HARMLESS.waits, worst_ms=milliseconds, **options))


def test_what_reaches_each_bound_has_no_fault():
    assert not HARMLESS.faults
    assert not HARMLESS.is_narrow


@pytest.mark.parametrize(
    ("cost", "fault"),
    [
        (waiting(WAIT_MS_MAX + 1), "waited 251 ms"),
        (waiting(0, error="the connection was closed"), "answered the connection was closed"),
        (attrs.evolve(HARMLESS, growth_bytes=GROWTH_BYTES_MAX + 1_000_000), "grew by 51 MB"),
        (attrs.evolve(HARMLESS, unanswered=2), "no answer to 2 requests"),
    ],
)
def test_what_goes_beyond_a_bound_is_a_fault(cost, fault):
    (found,) = cost.faults
    assert fault in found


def test_only_a_wait_that_noise_may_have_made_is_measured_again():
    assert waiting(NARROWLY * WAIT_MS_MAX).is_narrow
    assert not waiting(NARROWLY * WAIT_MS_MAX + 1).is_narrow
    assert not attrs.evolve(waiting(WAIT_MS_MAX + 1), growth_bytes=GROWTH_BYTES_MAX + 1).is_narrow


MS = 1_000_000


@pytest.mark.parametrize(
    ("own", "broker", "made_ms"),
    [
        ((0, 0, 0), (0, 0, 0), 400),
        ((0, 100 * MS, 0), (0, 50 * MS, 0), 250),
        ((0, 0, 0), (20 * MS, 0, 300 * MS), 100),
        ((0, 0, 0), (390 * MS, 0, 400 * MS), 390),
        ((0, 0, 0), (390 * MS, 350 * MS, 0), 50),
    ],
    ids=["blocked", "without a processor", "a thread holds the lock", "busy", "busy in part of it"],
)
def test_a_lack_of_processors_is_taken_off_a_wait_but_never_what_the_broker_ran_for(own, broker, made_ms):
    assert made_by_the_broker_ms(400, own, broker) == pytest.approx(made_ms)


def test_threads_that_come_and_go_count_from_when_they_are_there():
    before = Scheduled(7, {7: (10, 20), 8: (1, 2)})
    assert Scheduled(7, {7: (15, 26), 9: (3, 4)}).since(before) == (5, 6, 4)
