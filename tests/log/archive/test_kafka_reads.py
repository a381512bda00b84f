"""Apache Kafka's own tool accepts the files of a segment."""

import re

import pytest

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.index_files import OFFSET_ENTRY, TIME_ENTRY
from pipeline_broker.log.archive.local.local_store import LocalStore
from pipeline_broker.log.archive.segment_file import file_names
from pipeline_broker.records.batch import read_header
from tests.kafka_tools import kafka_tool
from tests.log.archive.segments import FOLDER, make_batch, write_segment

TOOL = "DumpLogSegments"
CODECS = (0, 1, 2, 3, 4)


def many_batches(base_offset, *, skip=0):
    """Of one to five records, small and large, with every codec, and times that go back and forth."""
    offset, batches = base_offset, []
    for number in range(120):
        timestamps = [1_000_000 + 37 * number - 500 * (number % 7) + n for n in range(1 + number % 5)]
        size = (10, 700, 1900, 9000)[number % 4]
        batches.append(make_batch(offset, timestamps, size, CODECS[number % len(CODECS)]))
        offset += len(timestamps) + (skip if number % 3 == 0 else 0)
    return batches


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    directory = tmp_path_factory.mktemp("archive")
    store = LocalStore(SystemFileSystem(), directory)
    segments = {0: many_batches(0), 123_456_789_012: many_batches(123_456_789_012)}
    for base_offset, batches in segments.items():
        write_segment(store, batches, base_offset=base_offset)
    with_gaps = many_batches(7, skip=11)
    write_segment(store, with_gaps, base_offset=3, folder="compacted-0")
    return directory, segments, with_gaps


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    run = kafka_tool(tmp_path_factory.mktemp("tool"))

    def call(paths, *arguments):
        return run(TOOL, *arguments, "--files", ",".join(map(str, paths)))

    return call


def test_kafka_reads_every_record_of_our_segments(written, dump):
    directory, segments, _ = written
    logs = [directory / file_names(FOLDER, base_offset)[0] for base_offset in segments]

    done = dump(logs, "--deep-iteration")

    # the tool counts offsets from zero in every file, wherever that begins
    assert done.stderr.splitlines() == [
        f"Non-consecutive offsets in {logs[1]}",
        "  -1 is followed by 123456789012",
    ]
    pattern = r"^baseOffset: (\d+) lastOffset: (\d+) .* position: (\d+) .* isvalid: (\w+)"
    rows = re.findall(pattern, done.stdout, re.MULTILINE)
    expected = []
    for batches in segments.values():
        position = 0
        for batch in batches:
            header = read_header(batch)
            expected.append((str(header.base_offset), str(header.last_offset), str(position), "true"))
            position += len(batch)
    assert rows == expected
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", done.stdout, re.MULTILINE)]
    spans = [(int(base), int(last)) for base, last, _, _ in rows]
    assert offsets == [offset for base, last in spans for offset in range(base, last + 1)]


def indexes_of(written):
    directory, segments, _ = written
    places = [(FOLDER, base_offset) for base_offset in segments] + [("compacted-0", 3)]
    return [directory / name for place in places for name in file_names(*place)[1:]]


def test_kafka_accepts_every_index_entry(written, dump):
    """Also in a segment with gaps, whose index has more entries than Kafka itself would make."""
    done = dump(indexes_of(written))

    assert done.stderr == ""
    entries = re.findall(r"^offset: (\d+) position: (\d+)", done.stdout, re.MULTILINE)
    times = re.findall(r"^timestamp: (\d+) offset: (\d+)", done.stdout, re.MULTILINE)
    sizes = [path.stat().st_size for path in indexes_of(written)]
    assert len(entries) * OFFSET_ENTRY.size == sum(sizes[0::2])
    assert len(times) * TIME_ENTRY.size == sum(sizes[1::2])
    assert min(sizes) > 0


def test_kafka_verifies_our_indexes_and_takes_them_for_sane(written, dump):
    paths = indexes_of(written)
    verified = dump(paths, "--verify-index-only")
    assert verified.stderr == ""
    checked = dump(paths, "--index-sanity-check")
    assert checked.stderr == ""
    assert checked.stdout.count("passed sanity check") == len(paths)


def test_kafka_would_notice_an_entry_that_is_wrong(written, dump, tmp_path):
    directory, _, _ = written
    for path in (directory / name for name in file_names(FOLDER, 0)):
        content = bytearray(path.read_bytes())
        if path.suffix != ".log":
            content[3 if path.suffix == ".index" else 7] ^= 1  # the first entry's offset, or its timestamp
        (tmp_path / path.name).write_bytes(content)
    _, *indexes = (tmp_path / name.split("/")[1] for name in file_names(FOLDER, 0))

    done = dump(indexes, "--verify-index-only")

    assert "Mismatches in" in done.stderr
    assert "Found timestamp mismatch in" in done.stderr
