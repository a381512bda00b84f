"""Counts, rates, and the protected listener."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.connection_quotas import (
    Admit,
    ConnectionQuotaLimits,
    ConnectionQuotas,
    Reject,
    UnknownConnectionError,
    Wait,
)


def quotas(**limits):
    return ConnectionQuotas(ConnectionQuotaLimits(**limits))


def test_the_server_makes_wait_and_the_address_rejects():
    asked = quotas(connections_max=2, connections_max_per_ip=1)
    assert isinstance(asked.ask("L", "a", 0.0), Admit)
    assert isinstance(asked.ask("L", "a", 0.0), Reject)
    assert isinstance(asked.ask("L", "b", 0.0), Admit)
    assert isinstance(asked.ask("L", "c", 0.0), Wait)
    asked.release("L", "a")
    assert isinstance(asked.ask("L", "c", 0.0), Admit)
    assert asked.total == 2
    assert (asked.count_of_ip("a"), asked.count_of_ip("c"), asked.count_of_listener("L")) == (0, 1, 2)


def test_a_listener_has_a_bound_of_its_own():
    asked = quotas(connections_max_by_listener={"L": 1})
    assert isinstance(asked.ask("L", "a", 0.0), Admit)
    assert isinstance(asked.ask("L", "a", 0.0), Wait)
    assert isinstance(asked.ask("M", "a", 0.0), Admit)


def test_an_address_may_have_a_bound_of_its_own():
    asked = quotas(connections_max_per_ip=0, connections_max_by_ip={"a": 2})
    assert [type(asked.ask("L", ip, 0.0)) for ip in "baaa"] == [Reject, Admit, Admit, Reject]


def test_the_protected_listener_gets_in_when_the_server_is_full_or_too_fast():
    asked = quotas(connections_max=1, creation_rate_max=1.0, protected_listener="ADMIN")
    assert isinstance(asked.ask("L", "a", 0.0), Admit)
    assert isinstance(asked.ask("L", "a", 0.0), Wait)
    assert isinstance(asked.ask("ADMIN", "a", 0.0), Admit)
    assert isinstance(asked.ask("ADMIN", "a", 0.0), Admit)


def test_rates_make_wait_at_most_one_window_and_an_address_that_is_too_fast_is_rejected():
    asked = quotas(creation_rate_max=2.0)
    verdicts = [asked.ask("L", "a", 0.0) for _ in range(3)]
    assert [type(verdict) for verdict in verdicts] == [Admit, Admit, Wait]
    assert 0 < verdicts[2].seconds <= 1.0
    by_ip = quotas(creation_rate_max_per_ip=1.0)
    assert [type(by_ip.ask("L", ip, 0.0)) for ip in "aab"] == [Admit, Reject, Admit]
    by_listener = quotas(creation_rate_max_by_listener={"L": 1.0})
    assert [type(by_listener.ask(listener, "a", 0.0)) for listener in "LLM"] == [Admit, Wait, Admit]


@given(st.floats(0.5, 20), st.lists(st.floats(0, 0.5), max_size=60))
def test_whoever_waits_as_told_gets_in_and_the_rate_holds(limit, gaps):
    asked, now, admitted = quotas(creation_rate_max=limit), 0.0, []
    for gap in gaps:
        now += gap
        for _ in range(200):
            verdict = asked.ask("L", "a", now)
            if isinstance(verdict, Admit):
                break
            now += verdict.seconds
        else:
            pytest.fail("it waits for ever")
        admitted.append(now)
    for start in admitted:
        in_window = [at for at in admitted if start <= at < start + 5]
        assert len(in_window) <= limit * 6 + 1  # any five seconds touch six windows


def test_nobody_is_released_who_was_not_admitted():
    asked = quotas()
    with pytest.raises(UnknownConnectionError):
        asked.release("L", "a")
    asked.ask("L", "a", 0.0)
    with pytest.raises(UnknownConnectionError):
        asked.release("M", "a")
    asked.release("L", "a")
    with pytest.raises(UnknownConnectionError):
        asked.release("L", "a")
    assert asked.total == 0
