"""Compare our Spark source and sink with Spark's Kafka connector, in interleaved rounds. Run from the root:

    python benchmarks/bench_spark.py [--rounds 7] [--rows 200000] [--only read|write]

| measured | goal of ours |
|---|---|
| read: rows/s of a topic, summing the lengths of keys and values, with a warm page cache | >= 0.8 of the connector |
| write: rows/s, acks=all, from rows in the session's memory | >= 0.8 of the connector |

Both use `local[1]`, records of 100 bytes and of 1 KB in four partitions, and the same running broker. The first round
of each is a warm-up. The benchmark needs Java and Maven.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from pipeline_broker.measure.experiment.intervals import speedup
from spark_analysis.live.connector import connector_jars
from spark_analysis.session import spark_session

PARTITIONS = 4
SIZES_BYTES = (100, 1000)
OURS, CONNECTOR = "pipeline-broker", "kafka"
READY_SECONDS_MAX = 30.0


@contextlib.contextmanager
def broker(directory: Path) -> Iterator[str]:
    arguments = ["--port", "0", "--data", str(directory), "--set", f"num.partitions={PARTITIONS}"]
    command = [sys.executable, "-m", "pipeline_broker", "serve", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[2]
    finally:
        process.terminate()
        process.wait(READY_SECONDS_MAX)


def rows(spark: SparkSession, count: int, size_bytes: int) -> DataFrame:
    """Return cached rows with values that barely compress."""
    value = f"substr(repeat(md5(CAST(id AS STRING)), {size_bytes // 32 + 1}), 1, {size_bytes})"
    made = spark.range(0, count, 1, PARTITIONS).selectExpr("CAST(id AS STRING) key", f"CAST({value} AS BINARY) value")
    made = made.cache()
    made.count()
    return made


def seconds_of(do: Callable[[], object]) -> float:
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


def write(frame: DataFrame, side: str, servers: str, topic: str) -> None:
    frame.write.format(side).mode("append").option("kafka.bootstrap.servers", servers).option("topic", topic).save()


def read(spark: SparkSession, side: str, servers: str, directory: Path, topic: str) -> object:
    reader = spark.read.format(side).option("subscribe", topic)
    if side == OURS:
        reader = reader.option("path", str(directory))
    else:
        reader = reader.option("kafka.bootstrap.servers", servers).option("kafka.isolation.level", "read_committed")
    return reader.load().selectExpr("sum(length(key))", "sum(length(value))").collect()


def compare(name: str, count: int, rounds: int, does: Callable[[str, int], object]) -> None:
    rates: dict[str, list[float]] = {OURS: [], CONNECTOR: []}
    for number in range(rounds + 1):
        for side in sorted(rates, reverse=bool(number % 2)):
            rate = count / seconds_of(lambda side=side, number=number: does(side, number))
            if number:
                rates[side].append(rate)
    ratio = speedup(list(zip(rates[CONNECTOR], rates[OURS], strict=True)))
    assert ratio is not None
    within = "" if ratio.low is None else f" ({ratio.low:.2f} to {ratio.high:.2f})"
    ours, connector = (statistics.fmean(rates[side]) for side in (OURS, CONNECTOR))
    print(f"{name}: {ours:,.0f} rows/s, the connector {connector:,.0f}: {ratio.ratio:.2f}{within}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--only", choices=("read", "write"))
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as scratch,
        broker(Path(scratch) / "data") as servers,
        spark_session("local[1]", {"spark.jars": connector_jars()}, input_bytes=None) as spark,
    ):
        for size_bytes in SIZES_BYTES:
            made = rows(spark, arguments.rows, size_bytes)
            if arguments.only != "read":
                compare(
                    f"write {size_bytes} B",
                    arguments.rows,
                    arguments.rounds,
                    lambda side, number, size=size_bytes, made=made: write(
                        made, side, servers, f"written-{size}-{side}-{number}"
                    ),
                )
            if arguments.only != "write":
                topic = f"read-{size_bytes}"
                write(made, CONNECTOR, servers, topic)
                compare(
                    f"read {size_bytes} B",
                    arguments.rows,
                    arguments.rounds,
                    lambda side, _number, topic=topic: read(spark, side, servers, Path(scratch) / "data", topic),
                )
            made.unpersist()


if __name__ == "__main__":
    main()
