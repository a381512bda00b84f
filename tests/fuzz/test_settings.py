"""Settings that once stopped a broker, and new ones, take a step of milliseconds and open no strange file."""

import pytest

from tests.fuzz import settings


@pytest.mark.parametrize("data", settings.CORPUS.values(), ids=settings.CORPUS)
def test_what_once_stopped_a_broker_is_harmless(data):
    settings.run_one(data)


def test_new_settings_are_harmless():
    settings.fuzz()
