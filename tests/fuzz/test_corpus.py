"""Faults of the edges that were known once do not return, and a few new inputs find no other."""

import importlib

import pytest

from tests.fuzz.campaign import edges

MODULES = {edge: importlib.import_module(f"tests.fuzz.{edge}") for edge in edges()}
KNOWN = [(edge, name) for edge, module in MODULES.items() for name in module.CORPUS]


@pytest.mark.parametrize(("edge", "name"), KNOWN)
def test_a_known_fault_does_not_return(edge, name):
    MODULES[edge].run_one(MODULES[edge].CORPUS[name])


@pytest.mark.parametrize("edge", MODULES)
def test_new_inputs_find_nothing(edge):
    MODULES[edge].fuzz()
