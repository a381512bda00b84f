"""Raw runs become Parquet without loss; anything that does not match the format is refused in one line."""

from __future__ import annotations

import json
import struct
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_analysis import load_run
from spark_analysis.__main__ import main
from spark_analysis.convert import convert
from spark_analysis.errors import TraceError
from spark_analysis.location import Location
from spark_analysis.raw import read_runs
from spark_analysis.ring import RingFile
from spark_analysis.tables import RING_TABLES, TABLES

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]


def traced_run(synthetic, raw):
    """Write one row of each kind, with unusual values."""
    run = synthetic.RawRun(raw, 7, traced=True, settings={"num.io.threads": 8}, commit_delay_ms=2)
    stages = dict.fromkeys(
        ("RequestQueue", "Local", "CommitWait", "Remote", "ResponseOrderWait", "ResponseQueue", "ResponseSend"), 10
    )
    synthetic.traced_request(run, 3, 0, synthetic.START_NS, stages)
    synthetic.traced_request(
        run, 3, 1, synthetic.START_NS, stages, outcome=1, commit=None, submitted_ns=None, durable_ns=None
    )
    synthetic.append(
        run, 3, 0, 41, topic="caf\N{LATIN SMALL LETTER E WITH ACUTE} \N{SNOWMAN}\N{LINE SEPARATOR}\n\"'", last_offset=43
    )
    synthetic.append(run, 3, 1, 44, topic=None, partition=None)
    run.add("mutes", connection=3, reason=1, began_ns=5, ended_ns=None)
    run.add("queues", queue=0, at_ns=6, depth=9)
    run.answer(10, 20, 0, error=None)
    run.answer(30, None, 1, measured=False, correlation_id=None, error=-1)
    return run


@pytest.fixture
def traced(synthetic, tmp_path):
    return traced_run(synthetic, tmp_path / "raw")


OFFERED = {
    1: {},
    2: {"offered_of": "classic", "offered_share": 0.5, "offered_per_s": 2400},
    3: {"offered_per_s": 100.5},
}
TWO_RINGS, LONG, TRACED = 4, 5, 7
LONG_ROWS = 100


@pytest.fixture(scope="module")
def converted(synthetic, spark, tmp_path_factory):
    """Runs of all kinds, converted at once."""
    directory = tmp_path_factory.mktemp("raw")
    raw = directory / "raw"
    run = traced_run(synthetic, raw)
    run.lost = {"requests": 3, "appends": 1}
    run.columns["experiment"] = "ablation"
    run.write()
    for number, columns in OFFERED.items():
        run = synthetic.RawRun(raw, number, **columns)
        run.answer(10, 20, 0)
        run.write()
    run = synthetic.RawRun(raw, TWO_RINGS)
    run.answer(10, 20, 0)
    folder = run.write()
    (folder / "client.ring").rename(folder / "client-0.ring")
    (folder / "client-1.ring").write_bytes((folder / "client-0.ring").read_bytes())
    run = synthetic.RawRun(raw, LONG)
    for sequence in range(LONG_ROWS):
        run.answer(sequence, sequence + 1, sequence)
    run.write()
    convert(directory, spark)
    return directory


def read(directory, table, number=TRACED):
    """Return the rows of a table that belong to one run."""
    rows = pq.ParquetDataset(directory / "traces" / table).read().to_pylist()
    return [row for row in rows if row["run"] == number]


def test_every_table_and_column_is_written_with_its_declared_type_and_partitioned_by_run(converted, spark):
    run = load_run(converted, spark)  # it checks names and types
    counts = {table: getattr(run, table).where(f"run = {TRACED}").count() for table in TABLES}
    assert counts == dict(zip(TABLES, (1, 2, 2, 0, 1, 1, 0, 2), strict=True))
    for table in RING_TABLES:
        partitions = {path.name for path in (converted / "traces" / table).iterdir() if path.is_dir()}
        of_all = {f"run={number}" for number in (*OFFERED, TWO_RINGS, LONG, TRACED)}
        assert partitions == (of_all if table == "client" else {f"run={TRACED}"} if counts[table] else set())


def test_strings_codes_numbers_and_nulls_survive(converted):
    first, second = read(converted, "requests")
    assert (first["run"], first["connection"], first["outcome"], first["acks"]) == (7, 3, "send", -1)
    assert first["received_ns"] == 1_000_000_000_000
    assert (second["outcome"], second["commit"], second["submitted_ns"]) == ("none", None, None)
    appended, odd = read(converted, "appends")
    assert appended["topic"] == "caf\N{LATIN SMALL LETTER E WITH ACUTE} \N{SNOWMAN}\N{LINE SEPARATOR}\n\"'"
    assert (odd["topic"], odd["partition"]) == (None, None)
    (mute,) = read(converted, "mutes")
    assert mute == {"run": 7, "connection": 3, "reason": "throttle", "began_ns": 5, "ended_ns": None}
    client = read(converted, "client")
    assert [row["error"] for row in client] == [None, -1]
    assert [row["measured"] for row in client] == [True, False]
    assert [row["answered_ns"] for row in client] == [20, None]


def test_a_run_row_keeps_settings_machine_and_experiment(converted):
    (row,) = read(converted, "runs")
    assert json.loads(row["settings"]) == {"num.io.threads": 8, "experiment": "ablation"}
    assert json.loads(row["machine"])["cores"] == 2
    assert (row["commit_delay_ms"], row["lost_rows"], row["traced"]) == (2.0, 4, True)


def test_the_offered_load_is_kept_and_null_in_a_closed_loop(converted):
    rows = [row for number in OFFERED for row in read(converted, "runs", number)]
    kept = [(row["offered_of"], row["offered_share"], row["offered_per_s"]) for row in rows]
    assert kept == [(None, None, None), ("classic", 0.5, 2400.0), (None, None, 100.5)]


def test_several_rings_of_one_table_are_one_table(converted):
    assert len(read(converted, "client", TWO_RINGS)) == 2


def test_more_rows_than_one_chunk_keep_their_order(converted):
    content = (converted / f"raw/run-{LONG:05}/client.ring").read_bytes()
    ring = RingFile("client.ring", "client", LONG, pa.array([], pa.string()), pa.py_buffer(content))
    batches = list(ring.batches(chunk_rows=7))
    assert [batch.num_rows for batch in batches] == [*[7] * 14, 2]
    assert [row["sequence"] for batch in batches for row in batch.to_pylist()] == list(range(LONG_ROWS))
    assert [row["sequence"] for row in read(converted, "client", LONG)] == list(range(LONG_ROWS))


def test_runs_come_in_the_order_of_their_numbers(synthetic, spark, tmp_path):
    for number in (2, 10, 1):
        synthetic.RawRun(tmp_path / "raw", number).write()
    runs, left_out = read_runs(Location(spark, tmp_path / "raw"))
    assert [run.row["run"] for run in runs] == [1, 2, 10]
    assert left_out == []


def test_workers_decode_a_table_without_this_package(converted, spark):
    """The pickled job names no module of this package."""
    from pyspark.cloudpickle import dumps

    from spark_analysis.convert import _decoder

    runs, _ = read_runs(Location(spark, converted / "raw"))
    program = (
        "import sys, pickle; sys.modules['spark_analysis'] = None; "
        "decode = pickle.load(sys.stdin.buffer); print(list(decode(iter([]))))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], input=dumps(_decoder("raw", runs, "client")), capture_output=True, check=False
    )
    assert answer.stdout == b"[]\n", answer.stderr


def truncate_row(folder):
    path = folder / "client.ring"
    path.write_bytes(path.read_bytes()[:-3])


def truncate_header(folder):
    path = folder / "client.ring"
    path.write_bytes(path.read_bytes()[:40])


def truncate_magic(folder):
    (folder / "client.ring").write_bytes(b"PBTR")


def empty(folder):
    (folder / "client.ring").write_bytes(b"")


def wrong_magic(folder):
    path = folder / "client.ring"
    path.write_bytes(b"PARQUET!" + path.read_bytes()[8:])


def header_of_4_gib(folder):
    (folder / "client.ring").write_bytes(b"PBTRACE1" + struct.pack("<I", 0xFFFFFFFF))


def other_header(synthetic, **changes):
    def damage(folder):
        (folder / "client.ring").write_bytes(synthetic.header("client", **changes))

    return damage


def no_run_json(folder):
    (folder / "run.json").unlink()


def half_run_json(folder):
    path = folder / "run.json"
    path.write_text(path.read_text()[:30])


def run_json_without(name):
    def damage(folder):
        path = folder / "run.json"
        row = json.loads(path.read_text())
        del row[name]
        path.write_text(json.dumps(row))

    return damage


def run_json_with(**changes):
    def damage(folder):
        path = folder / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return damage


def no_client(folder):
    (folder / "client.ring").unlink()


def no_table(folder):
    (folder / "client.ring").rename(folder / "clients-1.ring")


def strings_not_json(folder):
    (folder / "strings.jsonl").write_text('"a"\n{oops\n')


def strings_not_text(folder):
    (folder / "strings.jsonl").write_text("1\n")


def lost_not_numbers(folder):
    (folder / "lost.json").write_text('{"requests": "many"}')


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (truncate_row, "truncated: the last row has"),
        (truncate_header, "truncated inside its header"),
        (truncate_magic, "truncated inside its header"),
        (empty, "empty"),
        (wrong_magic, "not a trace ring"),
        (header_of_4_gib, "truncated inside its header"),
        (no_run_json, "run.json is missing"),
        (half_run_json, "not readable as JSON"),
        (run_json_without("mode"), "lacks mode"),
        (run_json_with(in_flight="five"), "run.json"),
        (run_json_with(schema=3), "schema 3, but this version reads 1 and 2"),
        (no_client, "no client ring file"),
        (no_table, "clients-1.ring is not named after a table"),
        (strings_not_json, "has a line that is not a JSON string"),
        (strings_not_text, "has a line that is not a JSON string"),
        (lost_not_numbers, "not an object of whole numbers"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_damaged_run_is_one_clear_line_and_exit_code_2(damage, said, synthetic, tmp_path, capsys):
    run = synthetic.RawRun(tmp_path / "raw", 1)
    run.answer(10, 20, 0)
    run.answer(30, 40, 1)
    damage(run.write())
    assert_refused(tmp_path, said, capsys)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema": 3}, "schema 3, but this version reads 1 and 2"),
        ({"table": "requests"}, "contains rows of the table 'requests', not of client"),
        ({"columns": [["connection", "i4"]]}, "columns of client differ"),
        ({"columns": [["connection", "u9"]]}, "columns of client differ"),
        ({"columns": 5}, "has an invalid header: TypeError"),
        ({"enums": {"error": {"0": "none"}}}, "error is packed as 'i2', which is not int"),
    ],
)
def test_a_ring_with_another_layout_is_refused(changes, said, synthetic, tmp_path, capsys):
    other_header(synthetic, **changes)(synthetic.RawRun(tmp_path / "raw", 1).write())
    assert_refused(tmp_path, said, capsys)


def test_runs_of_mixed_schema_versions_are_refused(synthetic, tmp_path, capsys):
    synthetic.RawRun(tmp_path / "raw", 1).write()
    folder = synthetic.RawRun(tmp_path / "raw", 2).write()
    other_header(synthetic, schema=3)(folder)
    assert_refused(tmp_path, "run-00002/client.ring has schema 3", capsys)


@pytest.fixture
def without_decided(synthetic, monkeypatch):
    """Write runs as in schema 1: requests have no `decided_ns`."""
    old = [column for column in synthetic.COLUMNS["requests"] if column[0] != "decided_ns"]
    monkeypatch.setitem(synthetic.COLUMNS, "requests", old)


@pytest.mark.usefixtures("without_decided")
def test_in_traces_of_schema_1_a_request_was_decided_when_it_was_handled(
    traced, spark, tmp_path, synthetic, monkeypatch
):
    traced.columns["schema"] = 1
    header = synthetic.header
    monkeypatch.setattr(synthetic, "header", lambda table: header(table, schema=1))
    traced.write()
    convert(tmp_path, spark)
    rows, written = read(tmp_path, "requests"), traced.rows["requests"]
    assert [row["decided_ns"] for row in rows] == [row["handled_ns"] for row in written]
    for name in ("received_ns", "submitted_ns", "sent_ns"):
        assert [row[name] for row in rows] == [row[name] for row in written]


@pytest.mark.usefixtures("without_decided")
def test_traces_of_schema_2_without_its_new_column_are_refused(traced, spark, tmp_path):
    traced.write()
    with pytest.raises(TraceError, match="columns of requests differ from schema 2: decided_ns"):
        convert(tmp_path, spark)


def test_an_unknown_code_and_a_missing_string_are_refused(traced, spark, tmp_path):
    traced.rows["mutes"][0]["reason"] = 9
    folder = traced.write()
    with pytest.raises(TraceError, match="reason has the code 9"):
        convert(tmp_path, spark)
    traced.rows["mutes"][0]["reason"] = 0
    traced.write()
    (folder / "strings.jsonl").write_text("")
    with pytest.raises(TraceError, match=r"topic refers to string 0, but strings\.jsonl has 0 strings"):
        convert(tmp_path, spark)


def test_a_traced_run_without_broker_rows_is_refused(traced, spark, tmp_path):
    (traced.write() / "requests.ring").unlink()
    with pytest.raises(TraceError, match="no requests ring file"):
        convert(tmp_path, spark)


def test_two_runs_with_one_number_are_refused(synthetic, spark, tmp_path):
    run = synthetic.RawRun(tmp_path / "raw", 1)
    run.write()
    run.folder = tmp_path / "raw" / "run-again"
    run.write()
    with pytest.raises(TraceError, match="run 1 is in both"):
        convert(tmp_path, spark)


def test_a_failed_conversion_keeps_the_previous_parquet(traced, spark, tmp_path):
    folder = traced.write()
    convert(tmp_path, spark)
    before = sorted(path.name for path in (tmp_path / "traces").iterdir())
    truncate_row(folder)
    with pytest.raises(TraceError):
        convert(tmp_path, spark)
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == before
    assert not (tmp_path / "traces.new").exists()


@pytest.mark.parametrize("kind", ["nothing", "file", "empty", "empty raw"])
def test_a_directory_without_traces_is_one_clear_line(kind, tmp_path, capsys):
    directory = tmp_path / "out"
    if kind == "file":
        directory.write_text("")
    elif kind != "nothing":
        directory.mkdir()
    if kind == "empty raw":
        (directory / "raw").mkdir()
    assert_refused(directory, str(directory), capsys)


def assert_refused(directory, said, capsys):
    assert main([str(directory)]) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    line = answer.err.splitlines()[-1]  # a slow machine prints progress first
    assert line.startswith("error: ")
    assert said in line
    assert not (directory / "report.html").exists()
