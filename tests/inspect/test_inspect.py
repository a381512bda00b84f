"""`inspect` reads the journal, and judges a damaged one like recovery does."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline_broker.commands.inspect import inspect
from pipeline_broker.inspect.findings import BatchFound, Damage, TornTail, Totals
from pipeline_broker.inspect.inspection import Inspection
from pipeline_broker.log.errors import JournalCorrupt
from pipeline_broker.log.journal.clean_shutdown import mark_path
from pipeline_broker.log.journal.frame import FRAME_HEADER_SIZE
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.journal.segment import HEADER_SPACE, segment_path
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from tests.crashes.lengths import examples

TOPIC_ID = bytes(range(16))
PARTITIONS = 2


def write_journal(
    directory: Path, commits: int, *, batches: int = 2, segment_bytes: int = 64 << 10, value: bytes = b"value"
) -> None:
    """Write `batches` batches with two records each, spread over the partitions; closing adds an empty frame."""
    journal = Journal.open(directory, segment_bytes=segment_bytes)
    logs = LogManager(journal)
    logs.create("events", TOPIC_ID, PARTITIONS)
    logs.recover(lambda *_: None, 0)
    for commit in range(commits):
        entries = []
        for batch in range(batches):
            log = logs.find("events", batch % PARTITIONS)
            assert log is not None
            data = build_batch([NewRecord(value, b"key", commit), NewRecord(None, None, commit)])
            entry = log.append(read_header(data), data, 0).entry
            assert entry is not None
            entries.append(entry)
        journal.sync(journal.write(entries))
        logs.on_durable(entries)
    journal.close()


def run(directory: Path, *arguments: str) -> Result:
    return CliRunner().invoke(inspect, [str(directory), *arguments])


def json_of(directory: Path, *arguments: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run(directory, "--json", *arguments).stdout.splitlines()]


def frame_positions(directory: Path) -> list[int]:
    return [line["position"] for line in json_of(directory, "--show", "frames") if line["type"] == "frame"]


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def test_an_intact_journal_is_counted_and_ends_with_code_0(tmp_path):
    write_journal(tmp_path, commits=5)

    result = run(tmp_path)

    assert result.exit_code == 0, result.output
    assert "intact: 1 segments, 6 frames, 10 entries, 20 records" in result.stdout
    assert "next LSN 10" in result.stdout


def test_every_depth_adds_lines_and_the_deepest_shows_keys_and_values(tmp_path):
    write_journal(tmp_path, commits=2)

    lengths = [len(run(tmp_path, "--show", depth).stdout) for depth in ("segments", "frames", "entries", "batches")]
    deepest = run(tmp_path, "--show", "records").stdout

    assert [*lengths, len(deepest)] == sorted({*lengths, len(deepest)})
    assert 'key "key" value "value"' in deepest
    assert "key null value null" in deepest


def test_entries_in_json_have_topic_partition_offsets_and_sizes(tmp_path):
    write_journal(tmp_path, commits=2)

    entries = [line for line in json_of(tmp_path, "--show", "entries") if line["type"] == "entry"]

    assert [(entry["lsn"], entry["partition"], entry["base_offset"], entry["last_offset"]) for entry in entries] == [
        (0, 0, 0, 1),
        (1, 1, 0, 1),
        (2, 0, 2, 3),
        (3, 1, 2, 3),
    ]
    assert {entry["topic_id"] for entry in entries} == {"AAECAwQFBgcICQoLDA0ODw"}


def test_bytes_that_are_not_text_are_escaped(tmp_path):
    write_journal(tmp_path, commits=1, batches=1, value=b"\xff\x1b[2J")

    text = run(tmp_path, "--show", "records").stdout
    (entry,) = [line for line in json_of(tmp_path, "--show", "records") if line["type"] == "entry"]

    assert "\x1b" not in text
    assert entry["records"][0]["value_base64"] == "/xtbMko="


def test_a_journal_of_several_segments_is_one_sequence(tmp_path):
    write_journal(tmp_path, commits=12, batches=20, segment_bytes=8192)

    lines = json_of(tmp_path)

    assert lines[-1]["segments"] > 2
    assert (lines[-1]["next_lsn"], lines[-1]["damages"], lines[-1]["torn_tails"]) == (240, 0, 0)


def test_zero_filled_space_is_not_a_torn_tail(tmp_path):
    write_journal(tmp_path, commits=2)
    path = segment_path(tmp_path / "journal", 1)
    path.write_bytes(path.read_bytes() + bytes(10_000))

    end = next(line for line in json_of(tmp_path) if line["type"] == "segment_end")

    assert end["unused_bytes"] == 10_000
    assert run(tmp_path).exit_code == 0


@pytest.mark.parametrize("cut", [FRAME_HEADER_SIZE + 1, 2 * FRAME_HEADER_SIZE, 2 * FRAME_HEADER_SIZE + 90])
def test_a_commit_that_was_cut_short_is_a_torn_tail_not_damage(tmp_path, cut):
    write_journal(tmp_path, commits=3)
    mark_path(tmp_path).unlink()  # a crash leaves none
    path = segment_path(tmp_path / "journal", 1)
    path.write_bytes(path.read_bytes()[:-cut])

    result = run(tmp_path)

    assert result.exit_code == 0
    assert "torn tail: journal/00000000000000000001.segment @" in result.stdout
    assert "2 frames" in result.stdout


def test_a_flipped_bit_below_what_a_later_frame_declares_durable_is_damage(tmp_path):
    write_journal(tmp_path, commits=4)
    position = frame_positions(tmp_path)[1]
    flip(segment_path(tmp_path / "journal", 1), position + FRAME_HEADER_SIZE + 5)

    result = run(tmp_path)

    assert result.exit_code == 1
    assert (
        f"DAMAGE: journal/00000000000000000001.segment @{position}: the frame does not match its checksum"
        in result.stdout
    )
    assert "LSN 2 to 7 were durable" in result.stdout


def test_a_damaged_first_frame_of_a_later_segment_is_found(tmp_path):
    write_journal(tmp_path, commits=12, batches=20, segment_bytes=8192)
    flip(segment_path(tmp_path / "journal", 2), HEADER_SPACE + FRAME_HEADER_SIZE + 5)

    damages = [line for line in json_of(tmp_path) if line["type"] == "damage"]

    assert [(damage["file"], damage["position"]) for damage in damages] == [
        ("journal/00000000000000000002.segment", HEADER_SPACE)
    ]


def test_a_missing_segment_and_a_damaged_header_are_damage(tmp_path):
    write_journal(tmp_path / "gap", commits=12, batches=20, segment_bytes=8192)
    segment_path(tmp_path / "gap" / "journal", 2).unlink()
    write_journal(tmp_path / "header", commits=3)
    flip(segment_path(tmp_path / "header" / "journal", 1), 17)

    assert run(tmp_path / "gap").exit_code == 1
    assert "segments are missing" in run(tmp_path / "gap").stdout
    assert run(tmp_path / "header").exit_code == 1


def test_an_intact_frame_with_a_bad_batch_is_damage(tmp_path):
    """The frame's checksum covers the written bytes, the batch's those of the client; a faulty broker could mix them
    up.
    """
    journal = Journal.open(tmp_path)
    logs = LogManager(journal)
    (log,) = logs.create("events", TOPIC_ID, 1)
    logs.recover(lambda *_: None, 0)
    data = bytearray(build_batch([NewRecord(b"value")]))
    data[-1] ^= 1
    entry = log.append(read_header(data), data, 0).entry
    assert entry is not None
    entry_with_gap = log.append(read_header(good := build_batch([NewRecord(b"a")])), good, 0).entry
    skipped = log.append(read_header(good), good, 0).entry
    assert entry_with_gap is not None
    assert skipped is not None
    last = log.append(read_header(good), good, 0).entry
    assert last is not None
    journal.sync(journal.write([entry, entry_with_gap, last]))
    journal.close()

    reasons = [line["reason"] for line in json_of(tmp_path) if line["type"] == "damage"]

    assert reasons == [
        "batch at LSN 0: its checksum does not match",
        "batch at LSN 2: expected offset 2 of the partition, not 3",
    ]
    assert run(tmp_path).exit_code == 1


def test_another_directory_gets_one_line_and_code_2(tmp_path):
    (tmp_path / "file").write_text("")
    for name, message in (("missing", "does not exist"), ("", "is not a data directory"), ("file", "cannot be read")):
        result = run(tmp_path / name)

        assert result.exit_code == 2
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert not result.stdout


def test_a_read_only_journal_is_inspected_and_nothing_is_written(tmp_path):
    write_journal(tmp_path, commits=2)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    for path in files:
        path.chmod(stat.S_IRUSR)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    assert run(tmp_path).exit_code == 0
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()} == (
        before
    )


def test_a_journal_in_use_is_inspected(tmp_path):
    journal = Journal.open(tmp_path)
    list(journal.recover())

    assert run(tmp_path).exit_code == 0
    assert "holds no frames" in run(tmp_path).stdout
    journal.close()


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sample")
    write_journal(directory, commits=6, batches=6, segment_bytes=8192)
    return {path.name: path.read_bytes() for path in sorted((directory / "journal").iterdir())}


@given(data=st.data())
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_it_judges_a_damaged_journal_as_recovery_does(sample, data, tmp_path_factory):
    """With any bytes changed or cut, it refuses what recovery refuses, and counts the entries that recovery keeps."""
    directory = tmp_path_factory.mktemp("damaged")
    journal_directory = directory / "journal"
    journal_directory.mkdir()
    victim = data.draw(st.sampled_from(sorted(sample)))
    for name, content in sample.items():
        changed = bytearray(content)
        if name == victim:
            place = data.draw(st.integers(HEADER_SPACE - 20, len(changed) - 1))
            if data.draw(st.booleans()):
                changed[place] ^= data.draw(st.integers(1, 255))
            else:
                del changed[place:]
        (journal_directory / name).write_bytes(changed)

    found = list(Inspection(directory).findings())
    totals = found[-1]
    assert isinstance(totals, Totals)
    journal = Journal.open(directory)
    try:
        kept = sum(1 for _ in journal.recover())
    except JournalCorrupt:
        assert any(isinstance(finding, Damage) for finding in found)
    else:
        assert not any(isinstance(finding, Damage) for finding in found)
        assert sum(isinstance(finding, BatchFound) for finding in found) == kept == totals.entries
        assert totals.torn_tails == sum(isinstance(finding, TornTail) for finding in found)
    finally:
        journal.close()
