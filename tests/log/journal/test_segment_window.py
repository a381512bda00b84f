"""A window over a segment: memory is used for verified frames only, and every search ends."""

import os
from pathlib import Path

import pytest

from pipeline_broker.files.file_system import SystemFileSystem, write_all
from pipeline_broker.files.window import WINDOW_BYTES
from pipeline_broker.log.errors import JournalCorrupt
from pipeline_broker.log.journal import segment_window
from pipeline_broker.log.journal.frame import FRAME_HEADER_SIZE, encode_frame
from pipeline_broker.log.journal.segment import (
    HEADER_SPACE,
    SEGMENT_FILE_BYTES_MAX,
    encode_header,
    open_segment_file,
    segment_number,
    segment_path,
)
from pipeline_broker.log.journal.segment_window import SegmentWindow
from tests.files.test_window import Counting
from tests.log.journal.test_frame import entries_of

IDENTITY = 7


def frame(lsn, size_bytes=10):
    return b"".join(encode_frame(entries_of([bytes(size_bytes)]), IDENTITY, lsn, 0, 0))


def window_of(path, *parts):
    files = SystemFileSystem()
    file = files.open(path, create=True)
    write_all(file, [encode_header(IDENTITY), *parts], 0)
    return SegmentWindow(Counting(file))


def test_a_frame_that_is_longer_than_a_window_is_read_whole_only_when_it_is_intact(tmp_path):
    long = frame(0, 3 * WINDOW_BYTES)
    sound = window_of(tmp_path / "sound", long, frame(1))
    assert [each.first_lsn for each in sound.frames_anywhere(HEADER_SPACE)] == [0, 1]
    assert sound.source.largest == len(long)
    torn = window_of(tmp_path / "torn", long[:-1], b"x", frame(1))
    assert torn.frame_at(HEADER_SPACE) is None
    assert [each.first_lsn for each in torn.frames_anywhere(HEADER_SPACE)] == [1]
    assert torn.source.largest == WINDOW_BYTES


def test_a_frame_of_a_hole_costs_no_memory(tmp_path):
    head = frame(0, 3 * WINDOW_BYTES)[:FRAME_HEADER_SIZE]
    window = window_of(tmp_path / "a", head, b"x")
    os.truncate(tmp_path / "a", 1 << 30)
    window = SegmentWindow(window.source)
    assert list(window.frames_anywhere(HEADER_SPACE)) == []
    assert window.used_until(HEADER_SPACE) == HEADER_SPACE + FRAME_HEADER_SIZE + 1
    assert window.source.largest == WINDOW_BYTES


def test_a_search_among_headers_without_frames_ends(tmp_path, monkeypatch):
    heads = frame(0, 1000)[:FRAME_HEADER_SIZE] * 100
    assert list(window_of(tmp_path / "a", heads, bytes(1000)).frames_anywhere(HEADER_SPACE)) == []
    monkeypatch.setattr(segment_window, "DOUBTFUL_BYTES_MAX", 50_000)
    with pytest.raises(JournalCorrupt, match="too many broken frames"):
        list(window_of(tmp_path / "b", heads, bytes(1000)).frames_anywhere(HEADER_SPACE))


def test_a_segment_file_can_hold_one_commit_of_maximum_size(tmp_path):
    files, path = SystemFileSystem(), segment_path(tmp_path, 1)
    files.open(path, create=True)
    os.truncate(path, SEGMENT_FILE_BYTES_MAX)
    assert open_segment_file(files, tmp_path, 1).size_bytes() == SEGMENT_FILE_BYTES_MAX
    os.truncate(path, SEGMENT_FILE_BYTES_MAX + 1)
    with pytest.raises(JournalCorrupt, match=r"0001\.segment has 2147487784 bytes.*truncate"):
        open_segment_file(files, tmp_path, 1)


@pytest.mark.parametrize(
    "name",
    [
        "x.segment",
        "1.segment",
        "-0000000000000000001.segment",
        "\uff15" * 20 + ".segment",
        " " * 20 + ".segment",
        "0" * 21 + ".segment",
        "0" * 20,
        "0" * 20 + ".segment.bak",
    ],
)
def test_other_names_are_not_segments(name):
    assert segment_number(name) is None
    assert segment_number(segment_path(Path("any"), 12).name) == 12
