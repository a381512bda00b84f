"""The bar tells what runs, how many runs are done and how much time is left; without a terminal it is silent."""

import io

from rich.console import Console
from rich.progress import Progress

from pipeline_broker.measure.experiment.budget import TimeLeft
from pipeline_broker.measure.experiment.progress import ExperimentProgress, experiment_progress


def test_a_bar_tells_runs_and_time_left():
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=120)
    columns = ["{task.fields[runs]}", "{task.fields[left]}", "{task.description}"]
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        bar = ExperimentProgress(progress, 4, TimeLeft(7200.0))
        bar.advance(10.0, is_run=False)
        bar.show("raw 1 x 1, classic")
        bar.advance(100.0)
        bar.show("raw 1 x 1, pipelined")
    said = output.getvalue()
    assert "0/4 runs 2 h 00 min left starting brokers" in said
    assert "0/4 runs 2 h 00 min left raw 1 x 1, classic" in said
    assert "1/4 runs 1 h 58 min left raw 1 x 1, pipelined" in said


def test_without_a_terminal_nothing_is_said(capsys):
    with experiment_progress(1, TimeLeft(1.0)) as bar:
        bar.show("raw")
        bar.advance(1.0)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
