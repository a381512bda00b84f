"""The generator of synthetic raw runs; the Spark session is that of all tests (tests/conftest.py)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def _load_synthetic():
    spec = importlib.util.spec_from_file_location("spark_analysis_synthetic", Path(__file__).with_name("synthetic.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def synthetic():
    """The module synthetic.py: tests have no packages, so it is loaded by its path."""
    return _load_synthetic()


@pytest.fixture(autouse=True)
def _leaves_nothing_behind():
    """PySpark opens sockets to its JVM as it needs them, and leaves them to the garbage collector."""


@pytest.fixture(scope="session")
def experiment(synthetic, tmp_path_factory):
    """A small experiment with every part of a real one, as raw runs."""
    directory = tmp_path_factory.mktemp("experiment")
    synthetic.experiment(directory, requests=60)
    return directory
