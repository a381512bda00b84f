"""One file of the journal: its header, and the operations that create, prepare and recycle it."""

from pathlib import Path

import pytest

from pipeline_broker.log.journal import segment as tested
from pipeline_broker.log.journal.segment import (
    HEADER_SPACE,
    PREPARING_NAME,
    SPARE_NAME,
    activate_spare,
    create_segment,
    decode_header,
    discard_segment,
    encode_header,
    global_position,
    is_zero_after,
    prepare_spare,
    recycle_segment,
    segment_path,
    split_position,
)
from tests.compiled import IS_COMPILED
from tests.files.memory_file_system import MemoryFileSystem

DIRECTORY = Path("/d/journal")
SIZE_BYTES = HEADER_SPACE + 25
IDENTITY = 0x0123456789ABCDEF


@pytest.fixture
def files():
    made = MemoryFileSystem()
    made.make_directory(DIRECTORY)
    made.free = 1 << 30
    return made


@pytest.fixture
def done(files):
    """Return the file operations and their files."""
    noted = []
    files.before = lambda operation, path: noted.append((operation, path.name))
    return noted


def content(files, name):
    file = files.open(DIRECTORY / name)
    return bytes(file.read(file.size_bytes() + 1, 0))


def test_a_header_is_read_as_it_was_written_or_not_at_all():
    header = encode_header(IDENTITY)
    assert len(header) == HEADER_SPACE
    assert header[24:] == bytes(HEADER_SPACE - 24)
    assert decode_header(header) == decode_header(header + b"frames") == IDENTITY
    assert decode_header(header[:-1]) is None
    for place in range(24):
        damaged = bytearray(header)
        damaged[place] ^= 1
        assert decode_header(damaged) is None, place


@pytest.mark.parametrize("number", [1, 77, (1 << 23) - 1])
@pytest.mark.parametrize("position", [0, HEADER_SPACE, (1 << 40) - 1])
def test_a_place_is_a_segment_and_a_position(number, position):
    place = global_position(number, position)
    assert split_position(place) == (number, position)
    assert place < 1 << 63
    assert global_position(number, position) < global_position(number + 1, 0)


@pytest.mark.skipif(IS_COMPILED, reason="machine code has the values of constants, not their names")
def test_a_spare_is_zeroed_to_its_end_and_synced_in_steps(files, done, monkeypatch):
    """Also the last step, which may be a short one."""
    monkeypatch.setattr(tested, "ZERO_FILL_CHUNK_BYTES", 10)
    monkeypatch.setattr(tested, "ZERO_FILL_SYNC_BYTES", 20)
    identity = prepare_spare(files, DIRECTORY, SIZE_BYTES, lambda: False)
    assert done[-2:] == [("rename", PREPARING_NAME), ("sync directory", DIRECTORY.name)]
    assert [operation for operation, _ in done if operation in ("write", "sync")] == [
        *("write", "write", "write", "sync"),
        *("write", "sync"),
    ]
    assert content(files, SPARE_NAME) == encode_header(identity) + bytes(SIZE_BYTES - HEADER_SPACE)


@pytest.mark.skipif(IS_COMPILED, reason="machine code has the values of constants, not their names")
@pytest.mark.parametrize("chunks", [0, 1, 2])
def test_an_interrupted_spare_is_not_returned(files, monkeypatch, chunks):
    monkeypatch.setattr(tested, "ZERO_FILL_CHUNK_BYTES", 10)
    asked = []

    def is_stopped():
        asked.append(None)
        return len(asked) > chunks

    assert prepare_spare(files, DIRECTORY, SIZE_BYTES, is_stopped) is None
    assert files.list_directory(DIRECTORY) == [PREPARING_NAME]
    assert len(content(files, PREPARING_NAME)) == HEADER_SPACE + 10 * chunks
    assert prepare_spare(files, DIRECTORY, SIZE_BYTES, lambda: False) is not None
    assert files.list_directory(DIRECTORY) == [SPARE_NAME]


def test_a_spare_becomes_a_segment_once(files):
    identity = prepare_spare(files, DIRECTORY, SIZE_BYTES, lambda: False)
    for _ in range(2):  # the first call may not have come to its end
        segment = activate_spare(files, DIRECTORY, 7, identity)
        assert (segment.number, segment.identity, segment.zero_filled) == (7, identity, True)
        assert segment.path == segment_path(DIRECTORY, 7)
        assert files.list_directory(DIRECTORY) == [segment.path.name]
    files.power_cut(lambda _: 0)
    assert decode_header(content(files, segment.path.name)) == identity


def test_a_new_segment_grows_and_has_its_header_on_the_disk(files):
    segment = create_segment(files, DIRECTORY, 3)
    files.power_cut(lambda _: 0)
    assert content(files, f"{3:020d}.segment") == encode_header(segment.identity)
    assert (segment.number, segment.zero_filled) == (3, False)


def test_each_commit_has_a_file_of_its_own_which_the_next_one_uses_again(files):
    segment = create_segment(files, DIRECTORY, 1)
    first, second = segment.take_file(), segment.take_file()
    assert first is not second
    segment.give_back(first)
    assert segment.take_file() is first


@pytest.mark.parametrize("size_bytes", [HEADER_SPACE - 1, HEADER_SPACE, HEADER_SPACE + 1])
def test_a_file_is_filled_up_and_never_cut(files, done, size_bytes):
    segment = create_segment(files, DIRECTORY, 1)
    done.clear()
    segment.fill_up(size_bytes)
    assert segment.take_file().size_bytes() == max(HEADER_SPACE, size_bytes)
    assert [operation for operation, _ in done] == ["truncate"] * (size_bytes > HEADER_SPACE)


def test_a_segment_of_the_whole_length_becomes_a_spare_of_another_identity(files):
    before = create_segment(files, DIRECTORY, 1)
    before.take_file().write([b"frames"], HEADER_SPACE)
    before.fill_up(SIZE_BYTES)
    files.open(DIRECTORY / PREPARING_NAME, create=True)  # of an attempt that was cut short
    identity = recycle_segment(files, DIRECTORY, before.path, SIZE_BYTES)
    assert files.list_directory(DIRECTORY) == [SPARE_NAME]
    assert identity != before.identity
    assert content(files, SPARE_NAME) == encode_header(identity) + b"frames".ljust(25, b"\0")


@pytest.mark.parametrize("size_bytes", [SIZE_BYTES - 1, SIZE_BYTES + 1])
def test_a_segment_of_another_size_or_a_missing_one_is_not_recycled(files, size_bytes):
    segment = create_segment(files, DIRECTORY, 1)
    segment.fill_up(size_bytes)
    assert recycle_segment(files, DIRECTORY, segment.path, SIZE_BYTES) is None
    assert files.list_directory(DIRECTORY) == [segment.path.name]
    for _ in range(2):
        discard_segment(files, segment.path)
        assert files.list_directory(DIRECTORY) == []
        assert recycle_segment(files, DIRECTORY, segment.path, SIZE_BYTES) is None
    files.power_cut(lambda _: 0)
    assert files.list_directory(DIRECTORY) == []


@pytest.mark.parametrize("size_bytes", [9, 10, 11, 25])
def test_space_is_zero_when_every_byte_of_it_is(files, monkeypatch, size_bytes):
    monkeypatch.setattr(tested, "ZERO_FILL_CHUNK_BYTES", 10)
    file = files.open(DIRECTORY / "x", create=True)
    file.write([bytes(size_bytes)], 0)
    assert [is_zero_after(file, position) for position in (0, 1, size_bytes - 1)] == [True] * 3
    assert not is_zero_after(file, size_bytes), "no space"
    assert not is_zero_after(file, size_bytes + 1)
    for place in range(size_bytes):
        file.write([b"\1"], place)
        assert [is_zero_after(file, position) for position in range(size_bytes)] == [
            position > place for position in range(size_bytes)
        ]
        file.write([b"\0"], place)
