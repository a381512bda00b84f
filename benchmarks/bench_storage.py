"""Measure large batches and many partitions against disk and loopback. Run from the repository's root:

    python benchmarks/bench_storage.py [--seconds 60] [--rounds 7] [--only disk|fetch|partitions]

| measured | against | bound |
|---|---|---|
| batches of 1 MB, acks=all, flush=always, no archiver | the disk: see below | >= 60 % |
| the same with the archiver, which writes each byte a second time | the disk | >= 40 % |
| fetch: responses of 1 MB from the page cache, over loopback | | >= 1.5 GB/s |
| partitions: 16 x 16 requests of 100 bytes over 1,000 partitions | the same over one | >= 85 % |

The disk's own rate is that of sequential synced 1 MB writes to a growing file, which uses new disk space and new pages
of the page cache, like a growing journal and the archive. It is measured in each round, because the speed of a virtual
disk varies by more than a factor of two. For comparison, the rates of overwriting the space of one segment, and of
growing the file without the page cache (O_DIRECT), are printed too. The clients are threads with blocking sockets, in
this script's process.
"""

import argparse
import contextlib
import mmap
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import trio
from archiving_broker import ARCHIVING, JOURNAL_ONLY, broker
from large_exchange import MEGABYTE, Exchange, exchange

from pipeline_broker.client.control import Target, prepare
from pipeline_broker.files.file_system import BLOCK_BYTES
from pipeline_broker.log.journal.journal import SEGMENT_BYTES
from pipeline_broker.measure.experiment.intervals import speedup
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.statistics import figures
from pipeline_broker.measure.load.template import fetch_frame, produce_frame
from pipeline_broker.records.batch import NewRecord, build_batch

CONNECTIONS = 4
IN_FLIGHT = 4
DISK_SECONDS = 4.0
ROUND_SECONDS = 10.0
DISK_ROUNDS_MIN = 3
FETCH_CONNECTIONS = 2
FETCH_FILL = 64  # batches in each fetched partition
FETCH_VERSION = 12
FETCH_SECONDS = 5.0
PARTITIONS = 1000
PARTITION_SECONDS = 4.0
WRITE_MIN, STEADY_MIN, FETCH_MIN_BYTES, PARTITIONS_MIN = 0.6, 0.4, 1.5e9, 0.85


def disk_rate(folder: Path, *, grows: bool, is_direct: bool = False) -> float:
    """Return the bytes per second of writes of a megabyte, each synced.

    Args:
        folder: folder of the file.
        grows: whether the file grows; otherwise the space of one segment is overwritten repeatedly.
        is_direct: whether to bypass the page cache, in whole blocks.
    """
    size = MEGABYTE // BLOCK_BYTES * BLOCK_BYTES if is_direct else MEGABYTE
    data = mmap.mmap(-1, size)
    data[:] = os.urandom(size)
    path = folder / "disk"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | (os.O_DIRECT if is_direct else 0))
    try:
        if not grows:
            os.pwrite(descriptor, bytes(SEGMENT_BYTES), 0)
            os.fdatasync(descriptor)
        began, position, count = time.perf_counter(), 0, 0
        while (spent := time.perf_counter() - began) < DISK_SECONDS:
            os.pwrite(descriptor, data, position)
            os.fdatasync(descriptor)
            count += 1
            position += size
            if not grows and position + size > SEGMENT_BYTES:
                position = 0
        return count * size / spent
    finally:
        os.close(descriptor)
        path.unlink()


def batch_of(size: int) -> bytes:
    return build_batch([NewRecord(os.urandom(size), timestamp=time.time_ns() // 1_000_000)])


def target_of(port: int, partitions: int) -> Target:
    return trio.run(prepare, "127.0.0.1", port, "large", partitions)


def write_rate(folder: Path, kind: str, seconds: float) -> float:
    with broker(folder, kind, "--mode", "pipelined") as port:
        target = target_of(port, CONNECTIONS)
        frame_of = [produce_frame(target, number, batch_of(MEGABYTE - 200)) for number in range(CONNECTIONS)]
        return exchange([Exchange(port, frame) for frame in frame_of], IN_FLIGHT, seconds) * MEGABYTE


def measure_disk(folder: Path, seconds: float) -> None:
    """Print two lines: without and with the archiver."""
    rounds = max(DISK_ROUNDS_MIN, round(seconds / ROUND_SECONDS))
    for kind, least in ((JOURNAL_ONLY, WRITE_MIN), (ARCHIVING, STEADY_MIN)):
        pairs, used, direct = [], [], []
        for _ in range(rounds):
            limit = disk_rate(folder, grows=True)
            with tempfile.TemporaryDirectory(dir=folder) as data:
                written = write_rate(Path(data), kind, ROUND_SECONDS)
            pairs.append((statistics.mean((limit, disk_rate(folder, grows=True))), written))
            used.append(disk_rate(folder, grows=False))
            direct.append(disk_rate(folder, grows=True, is_direct=True))
        share = speedup(pairs)
        assert share is not None
        limit, written = (statistics.median(values) for values in zip(*pairs, strict=True))
        print(
            f"{kind}: {written / 1e6:,.0f} MB/s of the disk's {limit / 1e6:,.0f} MB/s = {share.ratio:.2f} "
            f"({share.low:.2f} to {share.high:.2f}, {rounds} rounds), wanted {least}: "
            f"{'holds' if share.ratio >= least else 'MISSED'}; "
            f"in the same space again and again {statistics.median(used) / 1e6:,.0f} MB/s, "
            f"past the page cache {statistics.median(direct) / 1e6:,.0f} MB/s",
            flush=True,
        )


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[tuple[int, Target]]:
    """Run a broker with more records in its partitions than the clients request."""
    with broker(folder, ARCHIVING, "--mode", "pipelined") as port:
        target = target_of(port, FETCH_CONNECTIONS)
        for number in range(FETCH_CONNECTIONS):
            one = Exchange(port, produce_frame(target, number, batch_of(MEGABYTE - 200)))
            sent = iter(range(FETCH_FILL))
            one.run(1, lambda sent=sent: next(sent, None) is None)  # type: ignore[misc]  # bound at once
        yield port, target


def measure_fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as data, filled(Path(data)) as (port, target):
        frames = [fetch_frame(target.topic, it, MEGABYTE, FETCH_VERSION) for it in range(FETCH_CONNECTIONS)]
        exchanges = [Exchange(port, frame) for frame in frames]
        rate = exchange(exchanges, 2, FETCH_SECONDS)
        size = exchanges[0].response_bytes
        if size < MEGABYTE // 2:
            raise RuntimeError(f"a response has {size} bytes")
        found = rate * size
        verdict = "holds" if found >= FETCH_MIN_BYTES else "MISSED"
        print(f"fetch: {found / 1e9:.2f} GB/s in {rate:,.0f} responses of {size / 1e6:.2f} MB: {verdict}", flush=True)


def small_rate(folder: Path, partitions: int) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as data, broker(Path(data), ARCHIVING, "--mode", "pipelined") as port:
        load = LoadOptions(
            "127.0.0.1", port, 16, 16, seconds=PARTITION_SECONDS, warmup_s=1.0, topic="small", partitions=partitions
        )
        return figures(run_load(load).rows).requests_per_s


def measure_partitions(folder: Path, rounds: int) -> None:
    pairs = []
    for number in range(rounds):
        order = (1, PARTITIONS) if number % 2 else (PARTITIONS, 1)
        found = {partitions: small_rate(folder, partitions) for partitions in order}
        pairs.append((found[1], found[PARTITIONS]))
    ratio = speedup(pairs)
    assert ratio is not None
    verdict = "holds" if ratio.ratio >= PARTITIONS_MIN else "MISSED"
    print(
        f"partitions: {PARTITIONS} over 1 = {ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f}, {rounds} rounds), "
        f"wanted {PARTITIONS_MIN}: {verdict}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=("disk", "fetch", "partitions"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        folder = Path(name)
        if options.only in (None, "disk"):
            measure_disk(folder, options.seconds)
        if options.only in (None, "fetch"):
            measure_fetch(folder)
        if options.only in (None, "partitions"):
            measure_partitions(folder, options.rounds)


if __name__ == "__main__":
    main()
