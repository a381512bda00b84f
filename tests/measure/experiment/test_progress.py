"""The progress is a bar on a terminal and lines elsewhere: current run, number of runs, time left."""

import io

from rich.console import Console
from rich.progress import Progress

from pipeline_broker.measure.experiment.budget import TimeLeft
from pipeline_broker.measure.experiment.progress import (
    LINE_EVERY_S,
    Bar,
    ExperimentProgress,
    Lines,
    experiment_progress,
)


def test_a_bar_shows_runs_and_time_left():
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=120)
    columns = ["{task.fields[runs]}", "{task.fields[left]}", "{task.description}"]
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        bar = ExperimentProgress(Bar(progress), 4, TimeLeft(7200.0))
        bar.show("starting brokers")
        bar.advance(10.0, is_run=False)
        bar.show("raw 1 x 1, classic")
        bar.advance(100.0)
        bar.show("raw 1 x 1, pipelined")
    text = output.getvalue()
    assert "0/4 runs 2 h 00 min left starting brokers" in text
    assert "0/4 runs 2 h 00 min left raw 1 x 1, classic" in text
    assert "1/4 runs 1 h 58 min left raw 1 x 1, pipelined" in text


def test_the_start_of_brokers_is_a_share_of_the_work_but_not_a_run():
    shown = []

    class Kept:
        def update(self, share, runs, left, title):
            shown.append((share, runs))

    progress = ExperimentProgress(Kept(), 2, TimeLeft(100.0))
    for seconds, is_run in ((20.0, False), (30.0, True), (50.0, True)):
        progress.show("raw")
        progress.advance(seconds, is_run=is_run)
    progress.show("raw")
    assert shown == [(0.0, "0/2 runs"), (0.2, "0/2 runs"), (0.5, "1/2 runs"), (1.0, "2/2 runs")]


def test_without_a_terminal_a_line_is_printed_every_ten_seconds(capsys):
    now_s = [100.0]
    progress = ExperimentProgress(Lines(lambda: now_s[0]), 9, TimeLeft(60.0))
    for _ in range(9):
        now_s[0] += LINE_EVERY_S / 2.9
        progress.show("raw 1 x 1, classic")
        progress.advance(1.0)
    captured = capsys.readouterr()
    assert captured.out == ""
    first, second, third = captured.err.splitlines()
    assert first.startswith("2/9 runs, ")
    assert second.startswith("5/9 runs, ")
    assert third.endswith(" left: raw 1 x 1, classic")


def test_a_short_experiment_prints_nothing_without_a_terminal(capsys):
    with experiment_progress(1, TimeLeft(1.0)) as progress:
        progress.show("raw")
        progress.advance(1.0)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
