"""The windows of a stream equal those of the batch query over the same rows, wherever the stream was interrupted."""

from __future__ import annotations

import io
import json
import re
import signal
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from spark_analysis import request_timelines, stage_latency, stream_stage_latency, window_stage_latency
from spark_analysis.errors import TraceError
from spark_analysis.live.end_signals import EndSignals
from spark_analysis.live.job import FIRST_WINDOW_SECONDS_MAX, _Time
from spark_analysis.live.stream import read_windows
from spark_analysis.live.table import ShownTable, WindowTable
from spark_analysis.tables import STAGES
from tests.spark_analysis.timeline_topic import BEGIN_S, TopicFiles, broken, random_rows, row

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]
WAIT_SECONDS = 120


class Killed(Exception):
    """Stands for the end of the process at the worst time: after writing the files, before the checkpoint."""


@pytest.fixture
def topic(tmp_path):
    return TopicFiles(tmp_path / "topic")


def read_all(spark, topic, directory, *, dies=(), **options):
    """Run the job until it has read everything. It dies after the given numbers of batches and starts again each
    time.
    """
    for batches in (*dies, None):
        seen = []

        def watch(_, batches=batches, seen=seen):
            seen.append(1)
            if len(seen) == batches:
                raise Killed

        query = stream_stage_latency(topic.stream(spark), directory, every_seconds=None, on_windows=watch, **options)
        if batches is None:
            assert query.awaitTermination(WAIT_SECONDS)
        else:
            with pytest.raises(StreamingQueryException, match="Killed"):
                query.awaitTermination(WAIT_SECONDS)


def windows_of(spark, directory):
    """Return the rows in the files by window and stage; each must occur once."""
    rows = read_windows(spark, directory)
    found = {(row["window_start"], row["mode"], row["stage"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def batch_windows(spark, topic):
    """Return the windows of the batch query over all published rows."""
    records = spark.read.text(str(topic.folder))
    frame = window_stage_latency(request_timelines(records))
    times = ("window_start", "window_end", "first_received", "last_received")
    columns = [f"unix_micros({name}) {name}" if name in times else name for name in frame.columns]
    found = {}
    for each in frame.selectExpr(*columns).collect():
        values = each.asDict()
        values |= {name: datetime.fromtimestamp(values[name] / 1e6, UTC) for name in times}
        found[values["window_start"], values["mode"], values["stage"]] = values
    return found


def test_a_job_that_dies_in_the_middle_and_between_batches_neither_loses_nor_doubles(spark, topic, tmp_path):
    for number in range(4):
        topic.publish(random_rows(number, number * 5 - 3, number * 5 + 7, 700), lost=number)
    directory = tmp_path / "out"
    read_all(spark, topic, directory, dies=(1, 2))

    found = windows_of(spark, directory)
    assert found == batch_windows(spark, topic)
    assert sum(row["requests"] for (*_, stage), row in found.items() if stage == "Total") == topic.requests()
    assert {stage for *_, stage in found} == set(STAGES)
    topic.publish(random_rows(9, 21, 27, 300), lost=9)  # the job resumes where it ended, also after a regular end
    read_all(spark, topic, directory)
    assert windows_of(spark, directory) == batch_windows(spark, topic) != found


def test_a_window_has_the_figures_that_were_planted_and_the_modes_stay_apart(spark, topic, tmp_path):
    gaps_us = [10, 20, 30, 40, 50, 60, 70, 80, 90]
    topic.publish(row(1.0, gaps_us) + row(9.0, gaps_us) + row(12.0, [2 * gap for gap in gaps_us]), lost=3)
    classic = TopicFiles(topic.folder, "classic")
    classic.publish(row(2.0, gaps_us))
    read_all(spark, topic, tmp_path / "out")

    found = windows_of(spark, tmp_path / "out")
    start = datetime.fromtimestamp(BEGIN_S, UTC)
    after = datetime.fromtimestamp(BEGIN_S + 10, UTC)
    assert {key[:2] for key in found} == {(start, "pipelined"), (start, "classic"), (after, "pipelined")}
    first, second = found[start, "pipelined", "Total"], found[after, "pipelined", "Total"]
    assert (first["requests"], first["p50_us"], first["p9999_us"], first["lost"]) == (2, 450.0, 450.0, 3)
    assert (second["requests"], second["p50_us"]) == (1, 900.0)
    assert [(first[name] - start).total_seconds() for name in ("first_received", "last_received")] == [1.0, 9.0]
    planted = {"RequestQueue": 30, "Local": 30, "CommitWait": 50, "ResponseSend": 90}
    assert {stage: found[start, "classic", stage]["p50_us"] for stage in planted} == planted
    files = sorted(path.name for path in (tmp_path / "out/windows").iterdir())
    names = [f"window={when:%Y%m%dT%H%M%SZ}-{mode}" for when, mode in sorted({key[:2] for key in found})]
    assert files == names
    assert pq.ParquetDataset(tmp_path / "out/windows" / names[0]).read().num_rows == len(STAGES)


def test_the_rows_have_the_columns_of_the_requests_table(spark, topic):
    topic.publish(random_rows(1, 0, 5, 50))

    class Run:
        requests = request_timelines(spark.read.text(str(topic.folder))).selectExpr("1 as run", "*")
        runs = spark.sql("select 1 as run, true as traced, 'pipelined' as mode")

    windows = window_stage_latency(request_timelines(spark.read.text(str(topic.folder)))).columns
    assert [name for name in windows if name not in window_stage_latency.__doc__.split("Returns:")[1]] == []
    total = stage_latency(Run()).where("stage = 'Total'").first()
    assert total["requests"] == topic.requests()
    assert [each["row"] for each in Run.requests.orderBy("row").collect()] == list(range(50))


def test_late_requests_are_left_out_and_counted(spark, topic, tmp_path):
    topic.publish(row(5.0, [1] * 9))
    topic.publish(row(100.0, [1] * 9))
    topic.publish(row(100.5, [1] * 9))  # a batch is held against the watermark of the one before it
    topic.publish(row(6.0, [1] * 9) + row(101.0, [1] * 9))
    query = stream_stage_latency(topic.stream(spark), tmp_path / "out", every_seconds=None, late_seconds=10)
    assert query.awaitTermination(WAIT_SECONDS)
    counts = {
        start: row["requests"]
        for (start, _, stage), row in windows_of(spark, tmp_path / "out").items()
        if stage == "Total"
    }
    assert list(counts.values()) == [1, 3]
    late = [operator.numRowsDroppedByWatermark for batch in query.recentProgress for operator in batch.stateOperators]
    assert sum(late) == 1


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (broken(schema=1), "a record has schema 1, but this version reads schema 2"),
        ("no record", "MALFORMED|FAILFAST|malformed"),
    ],
)
def test_an_invalid_record_ends_the_job_with_its_reason(spark, topic, tmp_path, record, reason):
    topic.write([record])
    query = stream_stage_latency(topic.stream(spark), tmp_path / "out", every_seconds=None)
    with pytest.raises(StreamingQueryException, match=reason):
        query.awaitTermination(WAIT_SECONDS)


def test_a_directory_keeps_its_window_length(spark, topic, tmp_path):
    (tmp_path / "live.json").write_text(json.dumps({"schema": 2, "window_seconds": 5, "late_seconds": 10}))
    with pytest.raises(TraceError, match="Choose another directory"):
        stream_stage_latency(topic.stream(spark), tmp_path)
    (tmp_path / "live.json").write_text("{")
    with pytest.raises(TraceError, match="not readable as JSON"):
        stream_stage_latency(topic.stream(spark), tmp_path)


def window_row(start_s, stage, **values):
    start, end = (datetime.fromtimestamp(BEGIN_S + at, UTC) for at in (start_s, start_s + 10))
    figures = dict.fromkeys(("mean_us", "p50_us", "p90_us", "p99_us", "p999_us", "p9999_us"), 1500.0)
    first, last = (datetime.fromtimestamp(BEGIN_S + at, UTC) for at in (start_s + 6, start_s + 8.5))
    head = {"window_start": start, "window_end": end, "mode": "pipelined", "stage": stage, "requests": 20, "lost": 4}
    head |= {"first_received": first, "last_received": last}
    return {**head, **figures, **values}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_table_shows_the_last_windows_and_the_last_state_of_each():
    table = WindowTable(windows_max=2)
    for start_s in (0, 10, 20, 10):
        table.update([window_row(start_s, stage, requests=20 + start_s) for stage in STAGES])
    table.update([window_row(20, stage, requests=1000, p99_us=None) for stage in STAGES])
    *_, first, last = table.lines()
    assert len(table.lines()) == 4
    assert first.split()[:6] == ["22:13:30", "pipelined", "10.0", "30", "3", "1.50"]
    assert last.split()[2:7] == ["8.5", "1,000", "118", "1.50", "-"]


def test_the_first_and_last_window_are_as_long_as_their_requests_cover():
    table = WindowTable(windows_max=2)
    lines = []
    for start_s in (0, 10, 20, 30):
        table.update([window_row(start_s, stage, requests=100) for stage in STAGES])
        lines.append([line.split()[2:5] for line in table.lines()[2:]])
    assert lines == [
        [["2.5", "100", "40"]],
        [["4.0", "100", "25"], ["8.5", "100", "12"]],
        [["10.0", "100", "10"], ["8.5", "100", "12"]],
        [["10.0", "100", "10"], ["8.5", "100", "12"]],
    ]
    single = window_row(50, "Total", mode="classic", requests=1)
    single["last_received"] = single["first_received"]
    table.update([{**single, "stage": stage} for stage in STAGES])
    assert table.lines()[-1].split()[2:5] == ["0.0", "1", "-"]


@pytest.mark.parametrize("output", [io.StringIO(), Terminal()])
def test_without_a_window_no_table_is_written(output):
    table = ShownTable(output)
    table.update([])
    table.end()
    assert output.getvalue() == ""


def test_signals_end_the_job_despite_the_handler_of_pyspark():
    before = signal.getsignal(signal.SIGINT)
    signals = EndSignals()
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as PySpark does, with a handler that raises
        signals.receive()
        assert not signals.is_set
        signal.raise_signal(signal.SIGINT)
        assert signals.is_set
    finally:
        signals.close()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_terminal_shows_the_table_updated_in_place():
    terminal = Terminal()
    table = ShownTable(terminal)
    table.update([])
    table.update([window_row(0, stage) for stage in STAGES])
    table.update([window_row(0, stage, requests=30) for stage in STAGES])
    table.end()
    _, second = re.split("(?=\x1b)", terminal.getvalue().replace("F\x1b", "F"))
    assert second.startswith("\x1b[3F[J")
    assert second.splitlines()[-1].split()[3] == "30"


def test_other_outputs_get_the_table_once():
    output = io.StringIO()
    table = ShownTable(output)
    for requests in (20, 30):
        table.update([window_row(0, stage, requests=requests) for stage in STAGES])
    assert output.getvalue() == ""
    table.end()
    assert output.getvalue().splitlines()[2:] == [
        next(line for line in output.getvalue().splitlines() if "22:13:20" in line)
    ]


def test_any_mode_name_stays_inside_the_folder(spark, topic, tmp_path):
    odd = TopicFiles(topic.folder, "../../etc/[x]=*")
    odd.publish(row(1.0, [1] * 9))
    read_all(spark, odd, tmp_path / "out")
    assert {mode for _, mode, _ in windows_of(spark, tmp_path / "out")} == {"../../etc/[x]=*"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "topic"]


def test_unfinished_files_of_a_killed_job_are_removed(spark, topic, tmp_path):
    (tmp_path / "out/windows/.spark-staging-1/window=x").mkdir(parents=True)
    topic.publish(row(1.0, [1] * 9))
    read_all(spark, topic, tmp_path / "out")
    assert not list((tmp_path / "out/windows").glob(".spark-staging*"))


def test_the_time_of_a_job_counts_from_its_first_window():
    now = [100.0]
    table = ShownTable(io.StringIO())
    job_time = _Time(5.0, table, lambda: now[0])
    now[0] += FIRST_WINDOW_SECONDS_MAX - 1
    assert not job_time.is_over
    table.update([window_row(0, stage) for stage in STAGES])
    assert not job_time.is_over
    now[0] += 4.9
    assert not job_time.is_over
    now[0] += 0.2
    assert job_time.is_over


def test_a_job_without_a_window_ends_unless_it_has_no_time_limit():
    now = [100.0]
    with_end, without = (_Time(seconds, ShownTable(io.StringIO()), lambda: now[0]) for seconds in (5.0, None))
    now[0] += FIRST_WINDOW_SECONDS_MAX + 1
    assert with_end.is_over
    assert not without.is_over
