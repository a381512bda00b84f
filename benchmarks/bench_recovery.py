"""Measure startup: with many partitions and much data after a clean stop, and with a full journal after a kill.

    python benchmarks/bench_recovery.py [--directory DIR] [--repeats n] [--gigabytes n] [--huge-gigabytes n]

The first part writes a data directory of 10,000 partitions with 20 GB, and one partition of 100 GB (see
`large_directory.py`). It drops the files from the page cache, starts `pipeline-broker serve`, waits for the ready line,
and reads from some partitions. The second part fills the journal to its limit, with small and with large batches. It
reads the journal in this process with a warm page cache, and with `pipeline-broker serve` after a SIGKILL. Each figure
is the median of the repeats, followed by the worst one. Processor seconds are listed too, because they depend less on
other load of the machine.
"""

import argparse
import contextlib
import gc
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import confluent_kafka
from large_directory import (
    LargeDirectory,
    UnsyncedFileSystem,
    append_commits,
    build,
    create_topics,
    forget_pages,
    opened,
    topic_names,
)

from pipeline_broker.log.journal.journal import SEGMENT_BYTES, SEGMENT_ENTRIES_MAX
from pipeline_broker.node.upkeep import sealed_segments_max
from pipeline_broker.records.batch import NewRecord, build_batch

START_SECONDS_MAX = 60.0
READ_SECONDS_MAX = 30.0
TOPICS, PARTITIONS = 1000, 10
READ_PARTITIONS = 20
SEGMENTS_MAX = sealed_segments_max(at_once=1) + 1
"""Maximum of journal segments on a disk: those that wait for the archive, and the one that is written."""
JOURNAL_BYTES = SEGMENTS_MAX * SEGMENT_BYTES
IDLE_SECONDS = 3.0


@attrs.frozen
class Load:
    """The contents of a full journal.

    Attributes:
        name: label of its lines.
        value_bytes: size of the value of a batch's only record.
        per_commit: batches per commit.
        partitions: partitions that receive the batches in turn.
        idempotent: whether batches come from an idempotent producer.
        flush: with "os", no frame declares the previous ones durable, so startup writes all of them again.
    """

    name: str
    value_bytes: int
    per_commit: int
    partitions: int
    idempotent: bool = False
    flush: str = "always"


LOADS = (
    Load("batches of 100 bytes, 1 per commit", 32, 1, 4),
    Load("batches of 100 bytes, 16 per commit", 32, 16, 4),
    Load("the same to 10,000 partitions", 32, 16, 10_000),
    Load("the smallest batches (70 bytes), 1 per commit", 0, 1, 4),
    Load("the same, idempotent", 0, 1, 4, idempotent=True),
    Load("the same, written with --flush os", 0, 1, 4, flush="os"),
    Load("batches of 64 KiB, 1 per commit", (64 << 10) - 80, 1, 4),
    Load("batches of 64 KiB, 16 per commit", (64 << 10) - 80, 16, 4),
)


@attrs.define
class Started:
    """A running broker; `seconds` is the time from the start of its process to the ready line."""

    process: subprocess.Popen[str]
    seconds: float
    address: str

    def memory_mb(self, field: str) -> float:
        """Return a field of the process's status that counts kilobytes, as megabytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith(field))) / 1024

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def started(path: Path, end_signal: int) -> Iterator[Started]:
    """Run a broker process, and end it with the given signal."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "pipeline_broker", "serve", "--port", "0", "--data", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            seconds = time.perf_counter() - began
            if not line:
                raise RuntimeError("the broker did not start")
            yield Started(process, seconds, line.split()[2])
        finally:
            process.send_signal(end_signal)


def files_of(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()]


def read_some(address: str) -> float:
    """Read one record from the middle of some partitions; return the seconds of the slowest."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False, "check.crcs": True}
    )
    slowest = 0.0
    for number in range(READ_PARTITIONS):
        topic = f"topic-{number * TOPICS // READ_PARTITIONS}" if number else "huge"
        began = time.perf_counter()
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 1)])
        message = consumer.poll(READ_SECONDS_MAX)
        assert message is not None, f"no record of {topic} arrived"
        assert message.error() is None, message.error()
        assert message.offset() == 1
        slowest = max(slowest, time.perf_counter() - began)
    consumer.close()
    return slowest


def line(name: str, values: list[float], unit: str, *, best: bool = False) -> None:
    worst = min(values) if best else max(values)
    print(f"{name:<62}{statistics.median(values):>12,.2f} {unit}  (worst {worst:,.2f})", flush=True)


def large(directory: Path, repeats: int, gigabytes: int, huge_gigabytes: int) -> None:
    path = directory / "large"
    began = time.perf_counter()
    build(LargeDirectory(path, TOPICS, PARTITIONS, gigabytes << 30, huge_gigabytes << 30))
    print(
        f"{TOPICS * PARTITIONS:,} partitions with {gigabytes} GiB, one with {huge_gigabytes} GiB "
        f"(built in {time.perf_counter() - began:.0f} s)"
    )
    figures: dict[str, list[float]] = {"ready": [], "processor": [], "rss": [], "later": [], "peak": [], "read": []}
    for _ in range(repeats):
        forget_pages(files_of(path))
        with started(path, signal.SIGTERM) as broker:
            figures["ready"].append(broker.seconds)
            figures["processor"].append(broker.processor_seconds())
            figures["rss"].append(broker.memory_mb("VmRSS"))
            figures["read"].append(read_some(broker.address))
            time.sleep(IDLE_SECONDS)
            figures["later"].append(broker.memory_mb("VmRSS"))
            figures["peak"].append(broker.memory_mb("VmHWM"))
    line("  start of the process to the ready line", figures["ready"], "s")
    line("  processor seconds until then", figures["processor"], "s")
    line("  resident memory then", figures["rss"], "MB")
    line(f"  the slowest of {READ_PARTITIONS} first reads", figures["read"], "s")
    line("  resident memory after them", figures["later"], "MB")
    line("  its peak", figures["peak"], "MB")


def fill(path: Path, load: Load) -> int:
    """Fill the journal to its limit without a clean stop; return the number of batches."""
    arguments = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0} if load.idempotent else {}
    batch = build_batch([NewRecord(bytes(load.value_bytes), timestamp=1)], **arguments)
    frame_bytes = 40 + load.per_commit * (24 + len(batch))
    journal, broker = opened(path, load.flush, UnsyncedFileSystem())
    create_topics(journal, broker, dict.fromkeys(topic_names(1), load.partitions))
    logs = list(broker.logs.partitions("topic-0"))
    commits = min(
        (JOURNAL_BYTES - (4 << 20)) // frame_bytes,
        SEGMENTS_MAX * SEGMENT_ENTRIES_MAX // load.per_commit - 1,
    )
    append_commits(journal, logs, batch, commits, load.per_commit)
    journal.detach_archiver()
    journal._directory_lock.release()  # noqa: SLF001 - like a killed process, it closes nothing
    return commits * load.per_commit


def replay(directory: Path, load: Load, repeats: int) -> None:
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        path = Path(folder) / "data"
        count = fill(path, load)
        size_bytes = sum(file.stat().st_size for file in files_of(path / "journal"))
        seconds, processor, ready, used, memory = [], [], [], [], []
        for _ in range(repeats):
            gc.collect()
            began, began_processor = time.perf_counter(), time.process_time()
            journal, broker = opened(path)
            seconds.append(time.perf_counter() - began)
            processor.append(time.process_time() - began_processor)
            assert broker.logs.batches_replayed >= count
            journal._directory_lock.release()  # noqa: SLF001 - see `fill`
            del journal, broker
        with started(path, signal.SIGKILL) as started_broker:
            ready.append(started_broker.seconds)
            used.append(started_broker.processor_seconds())
            memory.append(started_broker.memory_mb("VmHWM"))
    print(f"{load.name}: {count:,} batches, {size_bytes / 1e6:,.0f} MB")
    line("  in this process", [count / each for each in seconds], "batches/s", best=True)
    line("  the same per processor second", [count / each for each in processor], "batches/s", best=True)
    line("  in this process", [size_bytes / each / 1e6 for each in seconds], "MB/s", best=True)
    line("  start of the process to the ready line", ready, "s")
    line("  processor seconds until then", used, "s")
    line("  its peak memory", memory, "MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--gigabytes", type=int, default=20)
    parser.add_argument("--huge-gigabytes", type=int, default=100)
    parser.add_argument("--only", default="", help='"large", or a part of the names of journals')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        if options.only in ("", "large"):
            large(Path(folder), options.repeats, options.gigabytes, options.huge_gigabytes)
        for load in LOADS:
            if options.only in load.name:
                replay(Path(folder), load, options.repeats)


if __name__ == "__main__":
    main()
