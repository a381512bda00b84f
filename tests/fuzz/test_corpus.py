"""Each fuzzer passes its corpus of known faults, and a few new examples."""

import importlib

import pytest
from hypothesis import HealthCheck, settings

from tests.fuzz.campaign import edges


@pytest.mark.parametrize("edge", edges())
def test_known_faults_do_not_return(edge):
    module = importlib.import_module(f"tests.fuzz.{edge}")
    for entry in module.CORPUS:
        module.fuzz.hypothesis.inner_test(entry)


@pytest.mark.parametrize("edge", edges())
def test_new_examples_find_nothing(edge):
    fuzz = importlib.import_module(f"tests.fuzz.{edge}").fuzz
    settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))(fuzz)()


def test_each_edge_has_a_fuzzer():
    assert "registry" in edges()
