"""Cases of viewers that once stopped a broker, and new ones, take milliseconds and little memory."""

import pytest

from tests.fuzz import viewers


@pytest.mark.parametrize("case", viewers.CORPUS.values(), ids=viewers.CORPUS)
def test_what_once_stopped_a_broker_is_harmless(case):
    viewers.run_one(*case)


def test_new_cases_are_harmless():
    viewers.fuzz()
