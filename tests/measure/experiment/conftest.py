"""Brokers of an experiment as forks (see tests/forks.py), for tests that do not test how brokers are started."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.forks import PROGRAM, start_python

COMMAND = [sys.executable, "-P", *PROGRAM]  # the beginning of each broker's command


@pytest.fixture
def forked_brokers(monkeypatch):
    """Fork brokers instead of starting programs, with the same arguments, environment and output, in their own
    group.
    """

    def start(command, *, stderr, **_options):
        assert command[: len(COMMAND)] == COMMAND
        return start_python(command[len(COMMAND) :], stderr, process_group=0)

    forking = SimpleNamespace(**{**vars(subprocess), "Popen": start})
    monkeypatch.setattr("pipeline_broker.measure.experiment.broker_process.subprocess", forking)
