"""A progress bar shows the completed amount, also if it grows in steps too small to draw each."""

import io
import sys
from types import SimpleNamespace

import pytest

from pipeline_broker.commands.cluster import progress
from pipeline_broker.commands.cluster.progress import DRAW_S, metered


class Terminal(io.StringIO):
    def isatty(self):
        return True


def open_terminal(monkeypatch):
    """Replace standard error until the end of the test; pytest sets its own before each test."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def test_a_bar_is_drawn_at_intervals_with_the_total_so_far(monkeypatch):
    terminal = open_terminal(monkeypatch)
    now_s = [1000.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    shown = []
    with metered("writing", 90) as meter:
        for _ in range(9):
            before = len(terminal.getvalue())
            meter.advance(10)
            drawn = terminal.getvalue()[before:]
            shown.append(next((f"{done}" for done in range(10, 100, 10) if f"{done}/90" in drawn), None))
            now_s[0] += DRAW_S / 2.5
    assert shown == ["10", None, None, "40", None, None, "70", None, None]


@pytest.mark.parametrize(("total", "is_shown"), [(None, True), (0, True), (90, False)])
def test_no_bar_without_a_known_total_or_if_it_is_not_wanted(monkeypatch, total, is_shown):
    terminal = open_terminal(monkeypatch)
    with metered("writing", total, is_shown=is_shown) as meter:
        meter.advance(10)
    assert terminal.getvalue() == ""
