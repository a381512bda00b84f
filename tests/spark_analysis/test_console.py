"""Without a terminal, the progress of an analysis is an occasional line, and a short analysis prints none."""

from __future__ import annotations

from spark_analysis.console import LINE_EVERY_S, lines, progress_bar


def test_a_file_or_a_pipe_gets_a_line_every_ten_seconds_at_most_whatever_the_step(capsys):
    now_s = [100.0]
    begin = lines(lambda: now_s[0])
    for step in ("Traces to Parquet", "Spark"):
        report = begin(step)
        for done in range(6):
            now_s[0] += LINE_EVERY_S / 3.9
            report(done, 6)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == ["Traces to Parquet: 3 of 6", "Spark: 1 of 6", "Spark: 5 of 6"]


def test_a_short_analysis_prints_no_progress_without_a_terminal(capsys):
    with progress_bar() as begin:
        begin("Spark")(1, 1)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
