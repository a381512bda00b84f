"""Brokers of an experiment as forks (see tests/forks.py), for the tests that are not about how they are started."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.forks import PROGRAM, start_python

COMMAND = [sys.executable, "-P", *PROGRAM]
"""What the experiment begins the command of a broker with."""


@pytest.fixture
def forked_brokers(monkeypatch):
    """What an experiment starts is a fork with the same arguments, environment and output, in a group of its own."""

    def start(command, *, stderr, **_options):
        assert command[: len(COMMAND)] == COMMAND
        return start_python(command[len(COMMAND) :], stderr, process_group=0)

    forking = SimpleNamespace(**{**vars(subprocess), "Popen": start})
    monkeypatch.setattr("pipeline_broker.measure.experiment.broker_process.subprocess", forking)
