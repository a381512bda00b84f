"""Counts, the protected listener, and changing limits."""

import pytest

from stages.connection_quotas import (
    RATED_ADDRESSES_MAX,
    Admit,
    ConnectionQuotaLimits,
    ConnectionQuotas,
    Refuse,
    Throttle,
    UnknownConnectionError,
    UnknownListenerError,
)

LISTENERS = ("EXTERNAL", "ADMIN", "REPLICATION")


def quotas(*listeners, **limits):
    made = ConnectionQuotas(ConnectionQuotaLimits(**limits))
    for listener in listeners or LISTENERS:
        made.add_listener(listener)
    return made


def come(asked, listener, ip="192.0.2.1", now=0.0):
    """Return the verdict about a connection that does not wait; None if it would wait."""
    if asked.arrive(listener, now) or not asked.has_slot(listener):
        return None
    return type(asked.enter(listener, ip, now, now))


def test_nobody_comes_by_a_listener_that_is_not_there():
    """Behaviour 78: an unknown listener is an error."""
    asked = quotas()
    for call in (lambda: asked.arrive("NONE", 0.0), lambda: asked.has_slot("NONE"), lambda: come(asked, "NONE")):
        with pytest.raises(UnknownListenerError):
            call()
    with pytest.raises(UnknownListenerError):
        asked.enter("NONE", "192.0.2.1", 0.0, 0.0)
    assert asked.total == 0


def test_nobody_is_released_who_was_not_counted():
    """Behaviour 79: releasing an unknown address is an error."""
    asked = quotas()
    with pytest.raises(UnknownConnectionError):
        asked.release("ADMIN", "192.0.2.1")
    come(asked, "ADMIN")
    for listener, ip in (("EXTERNAL", "192.0.2.1"), ("ADMIN", "192.0.2.2"), ("NONE", "192.0.2.1")):
        with pytest.raises(UnknownConnectionError):
            asked.release(listener, ip)
    asked.release("ADMIN", "192.0.2.1")
    with pytest.raises(UnknownConnectionError):
        asked.release("ADMIN", "192.0.2.1")
    assert asked.total == 0


def test_by_default_nothing_is_limited():
    """Behaviour 80: 3 x 10,000 get in without waiting, and the rates are measured."""
    asked = quotas()
    for listener in LISTENERS:
        for number in range(10_000):
            assert come(asked, listener, f"192.0.2.{number % 200}", number / 10_000) is Admit
    assert asked.total == 30_000
    assert asked.statistics(1.0).creation_rate > 0
    for listener in LISTENERS:
        assert asked.count_of_listener(listener) == asked.statistics(1.0, listener).connections == 10_000
        assert asked.statistics(1.0, listener).creation_rate == 1000.0
        assert asked.statistics(1.0, listener).throttled_seconds == 0


def test_an_address_with_too_many_is_refused_and_counted_until_it_is_closed():
    """Behaviour 81: 17 get in; others are refused but counted; other addresses do not mind."""
    asked = quotas(connections_max_per_ip=17)
    assert [come(asked, "EXTERNAL") for _ in range(17)] == [Admit] * 17
    assert [come(asked, "EXTERNAL") for _ in range(3)] == [Refuse] * 3
    assert asked.count_of_ip("192.0.2.1") == 20
    assert come(asked, "EXTERNAL", "192.0.2.2") is Admit
    for _ in range(3):
        asked.release("EXTERNAL", "192.0.2.1")
    assert come(asked, "EXTERNAL") is Refuse
    for _ in range(2):
        asked.release("EXTERNAL", "192.0.2.1")
    assert come(asked, "EXTERNAL") is Admit


def test_a_single_address_may_have_a_bound_of_its_own():
    """Behaviours 18 and 19: an override raises, or grants, what the bound of all addresses denies."""
    asked = quotas("L", connections_max_per_ip=0, connections_max_by_ip={"a": 5})
    assert [come(asked, "L", ip) for ip in "baaaaaa"] == [Refuse, *[Admit] * 5, Refuse]
    asked = quotas("L", connections_max_per_ip=1, connections_max_by_ip={"a": 2})
    assert [come(asked, "L", ip) for ip in "bbaaa"] == [Admit, Refuse, Admit, Admit, Refuse]


def test_an_address_may_be_blocked_completely():
    """A rate of 0 is legal for an address: its connections get the longest throttle."""
    asked = quotas("L", creation_rate_max_by_ip={"a": 0.0})
    assert [come(asked, "L", ip) for ip in "aba"] == [Throttle, Admit, Throttle]
    asked.arrive("L", 0.0)
    assert asked.enter("L", "a", 50.0, 0.0).seconds == 1.0


def test_the_server_is_full_for_all_but_the_protected_listener():
    """Behaviour 82: at the limit is not above it; the protected listener may exceed it; others wait until below."""
    asked = quotas(connections_max=800, protected_listener="REPLICATION")
    assert [come(asked, "EXTERNAL") for _ in range(800)] == [Admit] * 800
    assert asked.excess == 0
    assert come(asked, "EXTERNAL") is come(asked, "ADMIN") is None
    assert come(asked, "REPLICATION") is Admit
    assert (asked.total, asked.excess) == (801, 1)
    asked.release("EXTERNAL", "192.0.2.1")
    assert asked.excess == 0
    assert not asked.has_slot("EXTERNAL")
    asked.release("EXTERNAL", "192.0.2.1")
    assert asked.has_slot("EXTERNAL")
    assert asked.has_slot("ADMIN")


def test_a_listener_that_is_alone_is_not_protected():
    asked = quotas("ONLY", connections_max=1, protected_listener="ONLY")
    assert [come(asked, "ONLY") for _ in range(2)] == [Admit, None]
    asked.add_listener("OTHER")
    assert come(asked, "ONLY") is Admit
    asked.remove_listener("OTHER")
    assert come(asked, "ONLY") is None


def test_the_maximum_of_a_listener_holds_back_everybody():
    """Behaviour 83: also the protected one, and only by its own connections."""
    asked = quotas(
        connections_max_by_listener=dict.fromkeys(LISTENERS, 200),
        connections_max=600,
        protected_listener="REPLICATION",
    )
    for listener in LISTENERS:
        assert [come(asked, listener) for _ in range(201)] == [Admit] * 200 + [None]
    for listener in LISTENERS:
        asked.release(listener, "192.0.2.1")
        assert come(asked, listener) is Admit


@pytest.mark.parametrize(
    "limits",
    [
        {"connections_max_by_listener": {"EXTERNAL": 0}},
        {"creation_rate_max_by_listener": {"EXTERNAL": 0.0}},
        {"creation_rate_max_by_listener": {"ADMIN": 5.0, "EXTERNAL": -1.0}},
        {"creation_rate_max_per_ip": -1.0},
        {"creation_rate_max": 0.0},
    ],
    ids=str,
)
def test_a_limit_that_would_let_in_nobody_is_an_error(limits):
    """Behaviour 92: a listener's maximum and rate must be above zero."""
    with pytest.raises(ValueError):
        ConnectionQuotaLimits(**limits)
    asked = quotas()
    with pytest.raises(ValueError):
        asked.limits = ConnectionQuotaLimits(**limits)
    assert come(asked, "EXTERNAL") is Admit


def test_on_change_is_called_for_everything_that_may_free_a_slot():
    told = []
    asked = ConnectionQuotas(ConnectionQuotaLimits(connections_max=1), lambda: told.append(asked.total))
    for listener in ("L", "M"):
        asked.add_listener(listener)
    come(asked, "L")
    asked.limits = ConnectionQuotaLimits(connections_max=2)
    asked.release("L", "192.0.2.1")
    asked.remove_listener("M")
    assert told == [1, 0, 0]


def test_a_listener_is_removed_when_its_connections_are_released():
    asked = quotas("L")
    come(asked, "L")
    with pytest.raises(AssertionError):
        asked.remove_listener("L")
    asked.release("L", "192.0.2.1")
    asked.remove_listener("L")
    with pytest.raises(UnknownListenerError):
        asked.arrive("L", 0.0)


def test_the_rates_of_old_addresses_are_forgotten():
    asked = quotas("L", creation_rate_max_per_ip=5.0, windows=2, connections_max_per_ip=1)
    for number in range(20_000):
        ip = f"address {number}"
        assert come(asked, "L", ip, number / 1000) is Admit
        asked.release("L", ip)
    assert asked.rated_addresses <= 2 * 1000 + 1
    assert asked.total == asked.count_of_ip("address 19999") == 0
    assert not asked._by_ip


def test_the_number_of_remembered_addresses_is_bounded():
    asked = quotas("L", creation_rate_max_per_ip=5.0)
    for number in range(RATED_ADDRESSES_MAX + 100):
        come(asked, "L", f"address {number}", 0.0)
    assert asked.rated_addresses == RATED_ADDRESSES_MAX
    assert asked.creation_rate_of_ip("address 0", 0.0) == 0.0
    assert asked.creation_rate_of_ip(f"address {RATED_ADDRESSES_MAX}", 0.0) == 0.1


def test_an_address_that_is_throttled_without_pause_is_remembered_and_no_other():
    asked = quotas("L", creation_rate_max_per_ip=1.0, windows=2)
    verdicts = [come(asked, "L", "a", 0.0) for _ in range(100)]
    assert verdicts == [Admit] + [Throttle] * 99
    assert asked.rated_addresses == 1
    assert come(asked, "L", "b", 10.0) is Admit
    assert asked.rated_addresses == 1


def test_windows_may_be_changed():
    def admitted(asked):
        return [come(asked, "ADMIN") for _ in range(20)].count(Admit)

    changed, few, many = (quotas(creation_rate_max_per_ip=1.0, windows=windows) for windows in (11, 2, 11))
    changed.limits = few.limits
    assert admitted(changed) == admitted(few) < admitted(many)
