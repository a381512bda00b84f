"""Measure compaction: `python benchmarks/bench_compaction.py [--repeats 3] [--only "few keys"]`.

For each kind of log, prints MB/s and records/s of mapping its keys, of cleaning it, and of plain iteration over its
records. Each figure is the best of the repeats, in one thread, from memory to memory. MB are uncompressed batches,
whose values compress to about half. Each kind cycles through its keys, so one record of each key remains. A last line
measures a full map of keys: keys/s that are added, found, and not found.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

import attrs

from pipeline_broker.log.compaction.cleaner import Batch, CleaningRound, DirtyPart, RoundParameters
from pipeline_broker.log.compaction.offset_map import OffsetMap
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches
from pipeline_broker.records.compression import Compression
from pipeline_broker.records.record import iterate_records

RECORDS = 100_000
VALUES = [random.Random(number).randbytes(50) + bytes(50) for number in range(1000)]
CODECS = (Compression.NONE, Compression.LZ4, Compression.ZSTD)
NOW_MS = 1_700_000_000_000
FULL_MAP_BYTES = 32 << 20


@attrs.frozen
class Kind:
    name: str
    keys: int
    key_bytes: int
    batch_records: int
    tombstones: bool = False


KINDS = (
    Kind("small batches, short keys", 10_000, 10, 10),
    Kind("large batches, short keys", 10_000, 10, 100),
    Kind("large batches, long keys", 10_000, 36, 100),
    Kind("few keys, nearly all goes", 200, 10, 100),
    Kind("every key once, nothing goes", RECORDS, 36, 100),
    Kind("tombstones, each rewritten", RECORDS, 10, 100, tombstones=True),
)


def build_log(kind: Kind, codec: int) -> bytes:
    batches = []
    for base in range(0, RECORDS, kind.batch_records):
        records = [
            NewRecord(
                None if kind.tombstones else VALUES[number % len(VALUES)],
                b"%0*d" % (kind.key_bytes, number * 7919 % kind.keys),
                NOW_MS + number,
            )
            for number in range(base, base + kind.batch_records)
        ]
        batches.append(build_batch(records, base, codec))
    return b"".join(batches)


def fastest(repeats: int, run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def mapped(batches: list[Batch]) -> OffsetMap:
    offset_map = OffsetMap(keys_max=RECORDS)
    complete = DirtyPart(offset_map, 0).add_segment(batches, RECORDS)
    assert complete, "the log is larger than the offset map"
    return offset_map


def cleaned(batches: list[Batch], offset_map: OffsetMap) -> int:
    """Clean a log and return the number of remaining records."""
    parameters = RoundParameters(now_ms=NOW_MS, delete_retention_ms=1000, upper_bound_offset=RECORDS)
    return sum(header.record_count for header, _ in CleaningRound(offset_map, parameters).clean(batches))


def iterate(batches: list[Batch]) -> None:
    for header, batch in batches:
        for _ in iterate_records(batch, header):
            pass


def measure(kind: Kind, codec: Compression, repeats: int) -> None:
    plain_bytes = len(build_log(kind, Compression.NONE))
    batches: list[Batch] = list(iterate_batches(build_log(kind, codec)))
    offset_map = mapped(batches)
    left = cleaned(batches, offset_map)
    seconds = {
        "iterate": fastest(repeats, lambda: iterate(batches)),
        "map": fastest(repeats, lambda: mapped(batches)),
        "clean": fastest(repeats, lambda: cleaned(batches, offset_map)),
    }
    columns = "".join(f"{plain_bytes / it / 1e6:9.1f} {RECORDS / it / 1e3:7.0f}" for it in seconds.values())
    print(f"{kind.name:30}{codec.name.lower():6}{columns}{left / RECORDS:7.1%}")


def measure_full_map(buffer_bytes: int) -> None:
    offset_map = OffsetMap(buffer_bytes)
    keys = [b"%036d" % number for number in range(offset_map.capacity)]
    others = [b"other %030d" % number for number in range(len(keys))]
    seconds = {
        "put": fastest(1, lambda: [offset_map.put(key, 1) for key in keys]),
        "found": fastest(1, lambda: [offset_map.get(key) for key in keys]),
        "not found": fastest(1, lambda: [offset_map.get(key) for key in others]),
    }
    assert len(offset_map) == len(keys)
    speeds = ", ".join(f"{name} {len(keys) / it / 1e3:.0f} k/s" for name, it in seconds.items())
    print(f"a map of {buffer_bytes >> 20} MiB: {len(keys):,} keys, {speeds}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="only kinds with this in their names, without the full map")
    options = parser.parse_args()
    heads = "".join(f"{name:>9} {'':7}" for name in ("iterate", "map", "clean"))
    print(f"{'':36}{heads}{'stays':>7}")
    print(f"{'':36}{'     MB/s    k/s' * 3}")
    for kind in KINDS:
        for codec in CODECS:
            if options.only in kind.name:
                measure(kind, codec, options.repeats)
    if not options.only:
        measure_full_map(FULL_MAP_BYTES)


if __name__ == "__main__":
    main()
