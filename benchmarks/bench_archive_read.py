"""Measure reads of archive segments from the page cache. Run from the repository's root:

    python benchmarks/bench_archive_read.py [--directory DIR] [--repeats n] [--size-mib n]

One segment is read from start to end in reads of 1 MiB, in three ways: plain `preadv`, reads of the store, and verified
batches of the reader. The checksum of the same bytes is measured alone. Each figure is the median of the repeats, and
the ratio is that of verified to plain reads. Files are on a disk, in DIR (default: a temporary folder).
"""

import argparse
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import attrs

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.local.local_store import LocalStore
from pipeline_broker.log.archive.segment_file import SegmentInfo, file_names
from pipeline_broker.log.archive.segment_reader import SegmentReader
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches, read_header
from pipeline_broker.records.checksum import crc32c

FOLDER = "topic-0"
READ_BYTES = 1 << 20


@attrs.frozen
class Written:
    store: LocalStore
    path: Path
    segment: SegmentInfo


def written(directory: Path, batch_bytes: int, size_bytes: int) -> Written:
    """Write a sealed segment of batches of about `batch_bytes`, which stays in the page cache."""
    store = LocalStore(SystemFileSystem(), directory)
    builder = IndexBuilder(0)
    names = file_names(FOLDER, 0)
    value = os.urandom(batch_bytes)
    while builder.size_bytes < size_bytes:
        offset = builder.last_offset + 1
        batch = build_batch([NewRecord(value, timestamp=offset)], offset, leader_epoch=0)
        store.write(names[0], [batch], builder.size_bytes)
        builder.add(offset, offset, len(batch), offset)
    builder.seal()
    entries = builder.take()
    store.write(names[1], [entries.offset_entries], 0)
    store.write(names[2], [entries.time_entries], 0)
    store.sync(names)
    return Written(store, directory / names[0], SegmentInfo.written(builder, is_sealed=True))


def plain(made: Written) -> int:
    descriptor = os.open(made.path, os.O_RDONLY)
    position = 0
    while position < made.segment.size_bytes:
        target = bytearray(min(READ_BYTES, made.segment.size_bytes - position))
        position += os.preadv(descriptor, [target], position)
    os.close(descriptor)
    return position


def from_store(made: Written) -> int:
    name, _, _ = file_names(FOLDER, 0)
    made.store.read(name, 1, 0)
    position = 0
    while position < made.segment.size_bytes:
        size_bytes = min(READ_BYTES, made.segment.size_bytes - position)
        data = made.store.read_cached(name, size_bytes, position)
        if data is None:  # the kernel may refuse a non-blocking read of cached bytes
            data = made.store.read(name, size_bytes, position)
        position += len(data)
    return position


def verified(made: Written) -> int:
    reader = SegmentReader(made.store)
    cold = reader.read(FOLDER, made.segment, 0, 1, at_least_one=True).cold
    assert cold is not None
    cold()  # loads the index
    batch_bytes = read_header(cold()[0]).size_bytes
    offset = total = 0
    while offset <= made.segment.last_offset:
        result = reader.read(FOLDER, made.segment, offset, READ_BYTES, at_least_one=True)
        size_bytes = sum(map(len, result.cold() if result.cold else result.parts))
        total += size_bytes
        offset += size_bytes // batch_bytes
    assert total == made.segment.size_bytes
    return total


def checksums(made: Written) -> tuple[int, float]:
    """Compute the checksums of all batches in memory; return the number of bytes and the seconds."""
    data = made.path.read_bytes()
    views = [batch[21:] for _, batch in iterate_batches(data)]
    start = time.perf_counter()
    for view in views:
        crc32c(view)
    return len(data), time.perf_counter() - start


def timed(once: Callable[[Written], int], made: Written) -> float:
    gc.collect()
    start = time.perf_counter()
    size_bytes = once(made)
    return size_bytes / (time.perf_counter() - start) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--size-mib", type=int, default=64)
    options = parser.parse_args()
    print(
        f"{'batches of':<12}{'preadv':>12}{'store':>12}{'verified':>12}{'ratio':>8}{'checksums':>12}{'their share':>13}"
    )
    for batch_bytes in (100, 1000, 16_000, 100_000):
        with tempfile.TemporaryDirectory(dir=options.directory) as name:
            made = written(Path(name) / "archive", batch_bytes, options.size_mib << 20)
            rates: dict[str, list[float]] = {"plain": [], "store": [], "verified": [], "crc": []}
            for _ in range(options.repeats):  # interleaved, because the speed of a machine drifts
                rates["plain"].append(timed(plain, made))
                rates["store"].append(timed(from_store, made))
                rates["verified"].append(timed(verified, made))
                size_bytes, seconds = checksums(made)
                rates["crc"].append(size_bytes / seconds / 1e6)
            median = {kind: statistics.median(values) for kind, values in rates.items()}
            ratio = statistics.median(v / p for v, p in zip(rates["verified"], rates["plain"], strict=True))
            print(
                f"{batch_bytes:>6} bytes"
                + "".join(f"{median[kind]:>7,.0f} MB/s" for kind in ("plain", "store", "verified"))
                + f"{ratio:>8.2f}{median['crc']:>7,.0f} MB/s{median['verified'] / median['crc']:>12.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
