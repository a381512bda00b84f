"""A process learns whether the terminal that it was started from is closed."""

import os
import pty

import pytest

from pipeline_broker.base import terminal
from pipeline_broker.base.terminal import Terminal


@pytest.fixture
def ends(monkeypatch):
    """Provide both ends of a terminal, the second of which stands for standard input."""
    found = pty.openpty()
    monkeypatch.setattr(terminal, "STDIN", found[1])
    yield found
    os.close(found[1])


def test_a_terminal_is_closed_once_its_other_end_is(ends):
    seen = Terminal()
    assert not seen.is_closed
    os.close(ends[0])
    assert seen.is_closed


def test_a_process_without_a_terminal_never_loses_one(monkeypatch):
    reader, writer = os.pipe()
    monkeypatch.setattr(terminal, "STDIN", reader)
    seen = Terminal()
    os.close(writer)
    os.close(reader)
    assert not seen.is_closed
