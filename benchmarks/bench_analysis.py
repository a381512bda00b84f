"""Measure how the analysis scales: seconds and memory for a number of trace rows and for twice as many.

python -m benchmarks.bench_analysis [ROWS] [DIRECTORY]      (default 2500000 rows, then 5000000; at most 10000000)

Spark generates the traces: ROWS requests and as many answers in 8 runs with 64 connections, in order. One connection
has half of all rows. Each size runs all queries of the report in a new process.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_analysis.figures import gather
from spark_analysis.ring import arrow_schema
from spark_analysis.run import load_run
from spark_analysis.session import spark_session
from spark_analysis.tables import LATER_COLUMNS

GROWTH_MAX = 2.2
ROWS = 2_500_000
ROWS_MAX = 10_000_000
FACTOR = 2
RUNS = 8
CONNECTIONS = 64
PARTS = 8
START_NS = 1_000_000_000_000

REQUEST_COLUMNS = """
  run, connection, sequence, 0 as api, 9 as version, cast(sequence as int) as correlation_id, connection % 8 as queue,
  cast(1 + sequence % 64 as int) as depth, 200L as request_bytes, 60L as response_bytes, -1 as acks,
  sequence div 32 as commit, 'send' as outcome, received_ns, received_ns + 500 as enqueued_ns,
  received_ns + wait_ns as dequeued_ns, received_ns + wait_ns + 15000 as handled_ns,
  received_ns + wait_ns + 15000 as decided_ns,
  received_ns + wait_ns + 16000 as submitted_ns, received_ns + wait_ns + 316000 as durable_ns,
  received_ns + wait_ns + 340000 as completed_ns, received_ns + 500000 as released_ns,
  received_ns + 510000 as send_started_ns, received_ns + 522000 as sent_ns
"""
CLIENT_COLUMNS = """
  run, connection, sequence, cast(sequence as int) as correlation_id, cast(null as bigint) as intended_ns,
  received_ns - 30000 as sent_ns, received_ns + 560000 + wait_ns as answered_ns, 0 as error, true as measured
"""
APPEND_COLUMNS = """
  run, connection, sequence, sequence div 32 as commit, 'events' as topic, connection as partition,
  sequence as base_offset, sequence as last_offset
"""


def described(number: int) -> dict[str, Any]:
    side = number % 2
    row: dict[str, Any] = {"run": number, "round": number // 2, "traced": True, "mode": ("classic", "pipelined")[side]}
    row |= {"side": side, "client": "raw", "in_flight": 64, "connections": CONNECTIONS, "commit_delay_ms": 0.0}
    row |= {"flush": "always", "settings": "{}", "machine": "{}", "client_cpu_share": 0.5, "lost_rows": 0}
    return row | LATER_COLUMNS


def generate(spark: Any, directory: Path, rows: int) -> None:
    """Write the traces of `rows` requests, partitioned over several files a table."""
    halves = spark.range(0, rows, numPartitions=PARTS).selectExpr(
        f"cast(id % {RUNS} as int) as run", f"id div {RUNS} as place"
    )
    placed = halves.selectExpr(
        "run",
        f"cast(if(place % 2 = 0, 0, 1 + place div 2 % {CONNECTIONS - 1}) as int) as connection",
        f"if(place % 2 = 0, place div 2, place div 2 div {CONNECTIONS - 1}) as sequence",
    )
    timed = placed.selectExpr(
        "run", "connection", "sequence", f"{START_NS} + sequence * 20000 + connection as received_ns",
        "1000 * (pmod(hash(run, connection, sequence), 100) + 1) as wait_ns",
    )  # fmt: skip
    for table, columns in (("requests", REQUEST_COLUMNS), ("client", CLIENT_COLUMNS), ("appends", APPEND_COLUMNS)):
        timed.selectExpr(*_split(columns)).write.mode("overwrite").parquet(str(directory / "traces" / table))
    rows_of = {"runs": [described(number) for number in range(RUNS)], "commits": [], "mutes": [], "queues": []}
    for table, values in rows_of.items():
        (directory / "traces" / table).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(values, arrow_schema(table)), directory / "traces" / table / "part.parquet")


def _split(columns: str) -> list[str]:
    return [column.strip() for column in columns.split(",")]


def peak_megabytes(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        # The high-water mark of resident memory; see proc(5).
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(directory: Path, rows: int) -> dict[str, float]:
    """Generate the traces and run all queries; return the seconds of both, and the memory of the JVM."""
    with spark_session(input_bytes=None) as spark:
        began = time.perf_counter()
        generate(spark, directory, rows)
        made = time.perf_counter()
        run = load_run(directory, spark)
        figures = gather(run)
        ended = time.perf_counter()
        assert sum(audit.violations for audit in figures.audits) == 0
        assert sum(audit.audited for audit in figures.audits) == 2 * rows
        memory = peak_megabytes(spark.sparkContext._gateway.proc.pid)  # noqa: SLF001 - PySpark has no public access to the JVM process
    return {"rows": rows, "made_s": made - began, "analysed_s": ended - made, "memory_mb": memory}


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "one":
        print(json.dumps(measure(Path(sys.argv[3]), int(sys.argv[2]))))
        return
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    if rows > ROWS_MAX:
        sys.exit(f"{rows} rows are too many: use at most {ROWS_MAX}")
    found = []
    for size in (rows, rows * FACTOR):
        with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as directory:
            command = [sys.executable, "-m", "benchmarks.bench_analysis", "one", str(size), directory]
            found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        last = found[-1]
        print(
            f"analysis of {size:>11,} requests  {last['analysed_s']:6.1f} s, generated in {last['made_s']:.1f} s, "
            f"JVM {last['memory_mb']:,.0f} MB",
            flush=True,
        )
    growth = found[1]["analysed_s"] / found[0]["analysed_s"]
    print(f"twice the rows          {growth:.1f} times the time (goal: at most {GROWTH_MAX:g})")


if __name__ == "__main__":
    main()
