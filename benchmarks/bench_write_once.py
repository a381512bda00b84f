"""Compare two ways to store large batches: through the journal, and straight to the files of their partitions.

    python benchmarks/bench_write_once.py [--rounds 7] [--seconds 4] [--batch-kib 64,1024] [--partitions 1,16,200]

* twice: each commit is one write to the journal and one sync. A second thread copies the batches to the files of their
  partitions, in rounds, as the archiver does.
* once: each commit writes its batches to the files of their partitions, in threads, and syncs these files. Then the
  journal gets references to the batches, and a second sync makes these durable.

No broker runs: both ways do only the work of the disk, past the page cache. A commit has COMMIT_BATCHES batches, and
begins when the last one is durable. Files of partitions grow in steps of GROWTH_BYTES.
"""

import argparse
import mmap
import os
import queue
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path

from pipeline_broker.files.file_system import BLOCK_BYTES
from pipeline_broker.log.journal.journal import SEGMENT_BYTES
from pipeline_broker.measure.experiment.intervals import speedup

COMMIT_BATCHES = 16
GROWTH_BYTES = 16 << 20
ARCHIVE_ROUND_BYTES = 64 << 20
ARCHIVE_BEHIND_BYTES_MAX = 256 << 20
THREADS = 16
KIB = 1024


class GrowingFile:
    def __init__(self, path: Path, *, size: int = 0) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        self.position = self.space = 0
        self._ends_at = size
        if size:  # the journal's segments are used again, so all their blocks were written before
            zeros = mmap.mmap(-1, 1 << 20)
            for position in range(0, size, len(zeros)):
                os.pwrite(self.descriptor, zeros, position)
            self.space = size

    def write(self, data: memoryview | mmap.mmap) -> None:
        if self._ends_at and self.position + len(data) > self._ends_at:
            self.position = 0
        if self.position + len(data) > self.space:
            os.posix_fallocate(self.descriptor, self.space, GROWTH_BYTES)
            self.space += GROWTH_BYTES
        os.pwrite(self.descriptor, data, self.position)
        self.position += len(data)

    def sync(self) -> None:
        os.fdatasync(self.descriptor)

    def close(self) -> None:
        os.close(self.descriptor)


class Files:
    def __init__(self, folder: Path, partitions: int) -> None:
        self.journal = GrowingFile(folder / "journal", size=SEGMENT_BYTES)
        self.of_partition = [GrowingFile(folder / str(number)) for number in range(partitions)]
        self.turns = cycle(range(partitions))

    def batches_of_next_commit(self) -> dict[int, int]:
        numbers = list(islice(self.turns, COMMIT_BATCHES))
        return {number: numbers.count(number) for number in numbers}

    def close(self) -> None:
        for file in (self.journal, *self.of_partition):
            file.close()


def random_memory(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size)
    memory[:] = os.urandom(size)
    return memory


def write_twice(files: Files, batch_bytes: int, seconds: float) -> float:
    commit = random_memory(COMMIT_BATCHES * batch_bytes)
    rounds: queue.Queue[dict[int, int] | None] = queue.Queue(max(1, ARCHIVE_BEHIND_BYTES_MAX // ARCHIVE_ROUND_BYTES))
    copied = random_memory(ARCHIVE_ROUND_BYTES)

    def archive() -> None:
        while (counts := rounds.get()) is not None:
            for number, count in counts.items():
                with memoryview(copied)[: count * batch_bytes] as part:
                    files.of_partition[number].write(part)
            for number in counts:
                files.of_partition[number].sync()

    archiver = threading.Thread(target=archive)
    archiver.start()
    began, written, waiting = time.perf_counter(), 0, dict[int, int]()
    while time.perf_counter() - began < seconds:
        files.journal.write(commit)
        files.journal.sync()
        written += len(commit)
        for number, count in files.batches_of_next_commit().items():
            waiting[number] = waiting.get(number, 0) + count
        if sum(waiting.values()) * batch_bytes >= ARCHIVE_ROUND_BYTES:
            rounds.put(waiting)
            waiting = {}
    rounds.put(waiting)
    rounds.put(None)
    archiver.join()
    return written / (time.perf_counter() - began)


def write_once(files: Files, batch_bytes: int, seconds: float) -> float:
    batches = random_memory(COMMIT_BATCHES * batch_bytes)
    references = random_memory(BLOCK_BYTES)

    def write_and_sync(number: int, count: int) -> None:
        with memoryview(batches)[: count * batch_bytes] as part:
            files.of_partition[number].write(part)
        files.of_partition[number].sync()

    began, written = time.perf_counter(), 0
    with ThreadPoolExecutor(THREADS) as threads:
        while time.perf_counter() - began < seconds:
            counts = files.batches_of_next_commit()
            list(threads.map(write_and_sync, counts.keys(), counts.values()))
            files.journal.write(references)
            files.journal.sync()
            written += len(batches)
    return written / (time.perf_counter() - began)


def rate(folder: Path, *, is_once: bool, partitions: int, batch_bytes: int, seconds: float) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        files = Files(Path(name), partitions)
        try:
            return (write_once if is_once else write_twice)(files, batch_bytes, seconds)
        finally:
            files.close()


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--batch-kib", type=numbers, default="64,1024")
    parser.add_argument("--partitions", type=numbers, default="1,16,200")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        for batch_kib in options.batch_kib:
            for partitions in options.partitions:
                pairs = []
                for number in range(options.rounds):
                    found = {
                        is_once: rate(
                            Path(name),
                            is_once=is_once,
                            partitions=partitions,
                            batch_bytes=batch_kib * KIB,
                            seconds=options.seconds,
                        )
                        for is_once in ((False, True) if number % 2 else (True, False))
                    }
                    pairs.append((found[False], found[True]))
                ratio = speedup(pairs)
                assert ratio is not None
                twice, once = (sorted(values)[len(values) // 2] / 1e6 for values in zip(*pairs, strict=True))
                print(
                    f"{batch_kib:5,} KiB, {partitions:3} partitions: once {once:,.0f} MB/s, twice {twice:,.0f} MB/s, "
                    f"once over twice {ratio.ratio:.2f} ({ratio.low:.2f} to {ratio.high:.2f}, {options.rounds} rounds)",
                    flush=True,
                )


if __name__ == "__main__":
    main()
