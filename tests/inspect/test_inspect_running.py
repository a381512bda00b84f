"""`inspect` beside a broker that writes, archives and recycles: nothing of that is damage."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pipeline_broker.inspect import journal_reader
from pipeline_broker.inspect.findings import BatchFound, Damage, Superseded, TornTail, Totals
from pipeline_broker.inspect.inspection import Inspection
from pipeline_broker.inspect.journal_segment import JournalSegment, open_segment, snapshot
from pipeline_broker.log.journal.frame import FRAME_HEADER_SIZE
from pipeline_broker.log.journal.segment import HEADER_SPACE, segment_path
from tests.inspect.data_directory import Data, archived, json_of, of_type, run

ROUNDS = 20
LOAD_SECONDS = 2
ROOT = Path(__file__).parents[2]


def test_no_damage_is_seen_while_segments_are_archived_and_recycled(tmp_path):
    data = Data(tmp_path)
    stopped = threading.Event()

    def serve():
        start = 0
        while not stopped.is_set():
            data.fill(12, b"value" * 60, start=start)
            data.journal.prepare_ahead()
            data.journal.seal()
            data.archive_one()
            start += 12

    broker = threading.Thread(target=serve)
    broker.start()
    try:
        damages = [
            finding for _ in range(ROUNDS) for finding in Inspection(tmp_path).findings() if isinstance(finding, Damage)
        ]
    finally:
        stopped.set()
        broker.join()
    assert damages == []
    assert run(tmp_path).exit_code == 0
    data.close()


def test_frames_that_arrive_while_a_segment_is_read_are_not_damage(tmp_path, monkeypatch):
    """A file is read from start to end, so the last frames may be seen without an earlier one."""
    data = Data(tmp_path)
    data.fill(6)
    calls = []

    def seen_late(files, directory: Path, number: int) -> JournalSegment | None:
        segment = open_segment(files, directory, number)
        calls.append(number)
        if segment is None or len(calls) > 1:
            return segment
        first = segment.frame_at(HEADER_SPACE)
        assert first is not None
        second = HEADER_SPACE + FRAME_HEADER_SIZE + first.body_size
        content = bytearray(segment.source.read(segment.size_bytes, 0))
        content[second : second + FRAME_HEADER_SIZE] = bytes(FRAME_HEADER_SIZE)
        return snapshot(number, bytes(content))

    monkeypatch.setattr(journal_reader, "open_segment", seen_late)
    found = list(Inspection(tmp_path).findings())

    assert calls == [1, 1]
    assert not any(isinstance(finding, Damage | TornTail) for finding in found)
    assert sum(isinstance(finding, BatchFound) for finding in found) == 7
    data.close()


@pytest.mark.parametrize("after", [0, 1])
def test_a_segment_that_is_recycled_before_it_is_read_is_passed_over(tmp_path, monkeypatch, after):
    data = archived(tmp_path, segments=3)
    calls = []

    def recycled(files, directory: Path, number: int) -> JournalSegment | None:
        if len(calls) == after:
            data.archive_one()
            if after:
                data.archive_one()
        calls.append(number)
        return open_segment(files, directory, number)

    monkeypatch.setattr(journal_reader, "open_segment", recycled)
    found = list(Inspection(tmp_path).findings())
    totals = found[-1]

    gone = segment_path(Path("journal"), 11 + after)
    assert Superseded(str(gone)) in found
    assert not any(isinstance(finding, Damage) for finding in found)
    assert isinstance(totals, Totals)
    assert totals.next_lsn == data.journal.next_lsn
    data.close()


def test_a_journal_that_lost_its_beginning_since_the_manifest_was_read_is_read_from_where_it_begins(
    tmp_path, monkeypatch
):
    data = archived(tmp_path, segments=3)
    original = journal_reader.segment_numbers

    def late(files, directory):
        while data.archive_one():
            pass
        return original(files, directory)

    monkeypatch.setattr(journal_reader, "segment_numbers", late)
    found = list(Inspection(tmp_path).findings())

    assert not any(isinstance(finding, Damage | Superseded) for finding in found)
    data.close()


def test_a_torn_tail_before_a_removed_segment_is_dropped(tmp_path, monkeypatch):
    """Everything before a removed segment is archived: a frame that was seen half written is complete by then."""
    data = archived(tmp_path, segments=3)
    data.journal.seal()
    last = 13

    def seen_late(files, directory: Path, number: int) -> JournalSegment | None:
        if number == last:
            while data.archive_one():
                pass
        segment = open_segment(files, directory, number)
        if segment is None or number != last - 1:
            return segment
        content, position = bytearray(segment.source.read(segment.size_bytes, 0)), HEADER_SPACE
        while (header := segment.frame_at(position)) is not None:
            position += FRAME_HEADER_SIZE + header.body_size
        content[position - 1] ^= 1
        return snapshot(number, bytes(content))

    monkeypatch.setattr(journal_reader, "open_segment", seen_late)
    found = list(Inspection(tmp_path).findings())

    assert Superseded(str(segment_path(Path("journal"), last))) in found
    assert not any(isinstance(finding, Damage | TornTail) for finding in found)
    data.close()


def test_the_directory_of_a_broker_under_load_is_inspected(broker_process):
    broker = broker_process()
    command = [sys.executable, "-m", "pipeline_broker", "load", broker.bootstrap, "--seconds", str(LOAD_SECONDS)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as load:
        codes = []
        while load.poll() is None:
            codes.append(run(broker.data, "--show", "records").exit_code)
        assert load.returncode == 0
    assert codes
    assert set(codes) == {0}
    lines = json_of(broker.data, "--show", "entries", "--topic", "load")
    assert {line["topic"] for line in of_type(lines, "entry")} == {"load"}
    broker.stop()
    assert run(broker.data).exit_code == 0
