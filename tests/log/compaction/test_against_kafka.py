"""Apache Kafka's cleaner and ours produce the same bytes; needs Java and Kafka's jars.

Compressed records are compared after decompression: two compressors of one format may produce different bytes.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.compaction.cleaner import CleaningRound, DirtyPart, LastRecord, RoundParameters
from pipeline_broker.log.compaction.offset_map import OffsetMap
from pipeline_broker.log.compaction.schedule import group_segments
from pipeline_broker.log.segments.log_segment import LogSegment
from pipeline_broker.records.batch import read_header
from pipeline_broker.records.record import record_bytes
from tests.kafka_tools import class_path, java_command, require_kafka
from tests.log.compaction.logs import logs, parsed

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("KafkaCleaner.java")
SHARED_MEMORY = Path("/dev/shm")
"""Kafka syncs each file of each log, which takes most of the time on a disk. No test here cuts the power."""
RETENTION_MS = 100


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    """Cleans the log in a directory by the rounds written there; gives the checkpoints."""
    require_kafka("javac")
    command = [*java_command(tmp_path_factory.mktemp("kafka")), "-cp", class_path(), str(PROGRAM)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def clean(directory):
        process.stdin.write(f"{directory}\n")
        process.stdin.flush()
        answer = process.stdout.readline().strip()
        assert all(part.isdigit() for part in answer.split()), answer
        return [int(part) for part in answer.split()]

    yield clean
    process.stdin.close()
    process.wait(30)
    process.stdout.close()


def facts(base, segment):
    last = read_header(segment[-1]).last_offset if segment else base - 1
    return LogSegment(base_offset=base, last_offset=last, size_bytes=sum(map(len, segment)))


def our_rounds(log, rounds, segment_bytes):
    """Return the result of each round: batches by base offset, the checkpoint, and the indexed aborted transactions."""
    segments = dict(zip(log.bases, log.segments, strict=True))
    aborted, first_dirty = log.aborted, 0
    last_records = {producer: LastRecord(0, offset) for producer, offset in log.last_data.items()}
    for bound, now_ms, keys_max in rounds:
        if first_dirty >= bound:
            yield segments, first_dirty, aborted
            continue
        offset_map = OffsetMap(keys_max=keys_max)
        dirty = DirtyPart(offset_map, first_dirty, aborted)
        starts = [base for base in segments if base < bound]
        for base, following in zip(starts, [*starts[1:], bound], strict=True):
            if following > first_dirty and not dirty.add_segment(parsed(segments[base]), following):
                break
        first_dirty = dirty.end_offset
        parameters = RoundParameters(
            now_ms=now_ms, delete_retention_ms=RETENTION_MS, upper_bound_offset=bound, last_records=last_records
        )
        cleaning = CleaningRound(offset_map, parameters, aborted)
        old = tuple(facts(base, segments[base]) for base in segments if base < first_dirty)
        result, index = {}, []
        for group in group_segments(old, segment_bytes):
            batches = [batch for it in group for batch in segments[it.base_offset]]
            result[group[0].base_offset] = [bytes(batch) for _, batch in cleaning.clean(parsed(batches))]
            index += cleaning.take_aborted()
        rewritten_end = next((base for base in segments if base >= first_dirty), first_dirty)
        aborted = index + [it for it in aborted if it.last_offset >= rewritten_end]
        segments = result | {base: batches for base, batches in segments.items() if base >= first_dirty}
        yield segments, first_dirty, aborted


def comparable(batches):
    """Return the bytes, or the decompressed records if compressors may differ."""
    return [
        bytes(batch)
        if not header.compression
        else (header._replace(batch_length=0, crc=0), record_bytes(batch, header))
        for header, batch in parsed(batches)
    ]


def without_bounds(batches, bounds):
    """Leave out the empty batches that end at a bound: Kafka keeps one in 4.3, like this broker, and none since 4.4."""
    return b"".join(
        bytes(batch) for header, batch in parsed(batches) if header.record_count or header.last_offset + 1 not in bounds
    )


def write_case(directory, log, rounds, segment_bytes):
    partition = directory / "topic-0"
    partition.mkdir()
    for base, segment in zip(log.bases, log.segments, strict=True):
        (partition / f"{base:020}.log").write_bytes(b"".join(segment))
    (partition / f"{log.end:020}.log").touch()
    lines = [f"{RETENTION_MS} {segment_bytes}", *(" ".join(map(str, it)) for it in rounds)]
    (directory / "rounds").write_text("\n".join(lines))


@st.composite
def cases(draw):
    """A log and up to four rounds, each up to a later segment."""
    log = draw(logs())
    bases = [*log.bases[1:], log.end]
    rounds, now_ms, bound = [], 1000, 0
    for _ in range(draw(st.integers(1, 4))):
        now_ms += draw(st.sampled_from([0, 50, 100]))
        bound = draw(st.sampled_from([base for base in bases if base >= bound]))
        rounds.append((bound, now_ms, draw(st.sampled_from([2, 3, 100]))))
    sizes = [1, 1 << 20]  # compressed sizes differ between compressors, so the segment size must not be close to one
    # With one round only: the empty batches of `without_bounds` count in the sizes of later rounds.
    if len(rounds) == 1 and not any(header.compression for header, _ in parsed(log.batches)):
        sizes.append(300)
    return log, rounds, draw(st.sampled_from(sizes))


def assert_same(kafka, log, rounds, segment_bytes):
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None) as name:
        directory = Path(name)
        write_case(directory, log, rounds, segment_bytes)
        checkpoints = kafka(directory)
        for number, (segments, checkpoint, _) in enumerate(our_rounds(log, rounds, segment_bytes), 1):
            assert checkpoint == checkpoints[number - 1]
            files = sorted((directory / f"round-{number}").iterdir())
            bounds = {bound for bound, *_ in rounds[:number]}
            theirs = {int(file.name[:20]): comparable([without_bounds([file.read_bytes()], bounds)]) for file in files}
            ours = {base: comparable([without_bounds(batches, bounds)]) for base, batches in segments.items()}
            assert ours == {base: batches for base, batches in theirs.items() if base < log.end}


@given(case=cases())
def test_kafkas_cleaner_leaves_the_same(kafka, case):
    assert_same(kafka, *case)


@given(case=cases())
def test_kafka_opens_our_compacted_log_and_compacts_it_likewise(kafka, case):
    log, rounds, segment_bytes = case
    *_, (segments, _, aborted) = our_rounds(log, rounds, segment_bytes)
    left = attrs.evolve(log, segments=list(segments.values()), bases=list(segments), aborted=aborted)
    bounds = {*left.bases, log.end}  # others are within a segment now
    later = [(bound, now_ms + RETENTION_MS, keys_max) for bound, now_ms, keys_max in rounds if bound in bounds]
    assert_same(kafka, left, later, segment_bytes)
