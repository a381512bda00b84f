"""Measure appends, commits and replays of the log. Run from the repository's root:

    python benchmarks/bench_journal.py [--directory DIR] [--repeats n]

Each line shows the median of the repeats and the best one. Files are on a disk, in DIR (default: a temporary folder).
"""

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.records.batch import NewRecord, build_batch, read_header

TOPIC_ID = bytes(range(16))
PARTITIONS = 4


def opened(directory: Path, flush: str) -> tuple[Journal, tuple[PartitionLog, ...], LogManager]:
    journal = Journal.open(directory, flush=flush)
    manager = LogManager(journal)
    logs = manager.create("topic", TOPIC_ID, PARTITIONS)
    manager.recover(lambda *_: None, now_ms=0)
    return journal, logs, manager


def batches(count: int, value_size: int, *, idempotent: bool = False) -> list[bytes]:
    return [
        build_batch(
            [NewRecord(bytes(value_size), timestamp=number)],
            **({"producer_id": 1, "producer_epoch": 0, "base_sequence": number} if idempotent else {}),
        )
        for number in range(count)
    ]


def measure(name: str, unit: str, repeats: int, once: Callable[[Path], float]) -> None:
    """Print the rate of `once`, which receives an empty directory and returns a rate."""
    rates = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(dir=measure.directory) as name_of_directory:
            gc.collect()
            rates.append(once(Path(name_of_directory)))
    print(f"{name:<58}{statistics.median(rates):>14,.0f} {unit}  (best {max(rates):,.0f})", flush=True)


def append(directory: Path, *, idempotent: bool, checked: bool) -> float:
    journal, logs, _ = opened(directory, "os")
    made = batches(50_000, 100, idempotent=idempotent)
    headers = [read_header(batch) for batch in made]
    log = logs[0]
    start = time.perf_counter()
    if checked:
        for batch in made:
            log.produce(batch, 0)
    else:
        for header, batch in zip(headers, made, strict=True):
            log.append(header, batch, 0)
    seconds = time.perf_counter() - start
    journal.close()
    return len(made) / seconds


def commit(directory: Path, *, flush: str, size: int, commits: int, prepared: bool = True) -> float:
    journal, logs, manager = opened(directory, flush)
    if prepared:
        journal.prepare_ahead()
    (batch,) = batches(1, 100)
    header = read_header(batch)
    start = time.perf_counter()
    for _ in range(commits):
        entries = [logs[number % PARTITIONS].append(header, batch, 0).entry for number in range(size)]
        journal.sync(journal.write(entries))
        manager.on_durable(entries)
    seconds = time.perf_counter() - start
    journal.close()
    return size * commits / seconds


def replay(directory: Path, *, count: int, value_size: int, per_commit: int, in_bytes: bool) -> float:
    journal, logs, _ = opened(directory, "os")
    (batch,) = batches(1, value_size)
    header = read_header(batch)
    for start_at in range(0, count, per_commit):
        journal.write(
            [
                logs[number % PARTITIONS].append(header, batch, 0).entry
                for number in range(start_at, start_at + per_commit)
            ]
        )
    journal.close()
    start = time.perf_counter()
    journal, _, manager = opened(directory, "os")
    seconds = time.perf_counter() - start
    journal.close()
    assert manager.batches_replayed == count
    return count * len(batch) / seconds / 1e6 if in_bytes else count / seconds


def read(directory: Path, *, cached: bool) -> float:
    """Read the whole log in fetches of 1 MiB: batches of one record of 100 bytes, interleaved over four partitions."""
    journal, logs, manager = opened(directory, "os")
    (batch,) = batches(1, 100)
    header = read_header(batch)
    manager.cache.bytes_max = (1 << 30) if cached else 0
    for _ in range(400):
        entries = [logs[number % PARTITIONS].append(header, batch, 0).entry for number in range(100)]
        journal.write(entries)
        manager.on_durable(entries)
    log, offset = logs[0], 0
    start = time.perf_counter()
    while offset < log.high_watermark:
        size = log.read(offset, 1 << 20, at_least_one=True).size_bytes
        assert size, "the page cache holds the records just written"
        offset += size // len(batch)
    seconds = time.perf_counter() - start
    journal.close()
    return log.high_watermark / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    measure.directory = options.directory
    repeats = options.repeats
    measure("append", "batches/s", repeats, lambda d: append(d, idempotent=False, checked=False))
    measure("append, idempotent", "batches/s", repeats, lambda d: append(d, idempotent=True, checked=False))
    measure("check and append", "batches/s", repeats, lambda d: append(d, idempotent=False, checked=True))
    for size, commits in ((1, 300), (16, 200), (64, 200), (256, 100)):
        measure(
            f"append, write, sync, show: {size} a commit",
            "batches/s",
            repeats,
            lambda d, size=size, commits=commits: commit(d, flush="always", size=size, commits=commits),
        )
    measure(
        "the same without zero-filled space: 16 a commit",
        "batches/s",
        repeats,
        lambda d: commit(d, flush="always", size=16, commits=200, prepared=False),
    )
    measure(
        "the same, flush=os: 16 a commit", "batches/s", repeats, lambda d: commit(d, flush="os", size=16, commits=2000)
    )
    for per_commit in (1, 16, 64):
        measure(
            f"replay, 100 bytes, {per_commit} a commit",
            "batches/s",
            repeats,
            lambda d, n=per_commit: replay(d, count=64_000, value_size=100, per_commit=n, in_bytes=False),
        )
    measure(
        "replay, 64 KiB, 16 a commit",
        "MB/s",
        repeats,
        lambda d: replay(d, count=4000, value_size=64 << 10, per_commit=16, in_bytes=True),
    )
    measure("read, 100 bytes, from the tail cache", "batches/s", repeats, lambda d: read(d, cached=True))
    measure("read, 100 bytes, from the journal", "batches/s", repeats, lambda d: read(d, cached=False))


if __name__ == "__main__":
    main()
