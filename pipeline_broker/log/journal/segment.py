"""One segment file of the journal: names, header, creation, zero-filled spares and recycling.

Every use of disk space as a segment has a random identity, which its header and frames carry. Files:

* `<20 digits>.segment` holds frames; the digits are its number.
* `spare` holds no frame of its own identity. Its content is zeros, or frames of earlier identities.
* `preparing` is an unfinished spare, and worthless.

Layout of the first 4096 bytes (little-endian): magic 8, version 4, CRC-32C 4 (of the following fields), identity 8,
zeros.
"""

import errno
import re
import secrets
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.file_system import File, FileSystem, write_all
from pipeline_broker.log.errors import JournalCorrupt
from pipeline_broker.log.journal.frame import BODY_SIZE_MAX, FRAME_HEADER_SIZE
from pipeline_broker.records.checksum import crc32c

MAGIC: Final = b"PBJOURNL"
VERSION: Final = 1
HEADER_SPACE: Final = 4096  # frames start at a new block, so no write of a frame can tear the header
SEGMENT_SUFFIX: Final = ".segment"
# A commit larger than a segment gets a segment of its own, so the largest file has one frame of maximum size.
SEGMENT_FILE_BYTES_MAX: Final = HEADER_SPACE + FRAME_HEADER_SIZE + BODY_SIZE_MAX
"""Size of a journal segment that is read."""
SPARE_NAME: Final = "spare"
PREPARING_NAME: Final = "preparing"
ZERO_FILL_CHUNK_BYTES: Final = 1 << 20
SPARES_FREE_MIN: Final = 2  # a spare is written only if two would fit: commits need the last free space more
ZERO_FILL_SYNC_BYTES: Final = 8 << 20  # synced in steps, so that no commit waits for the sync of a whole segment

_NAME: Final = re.compile(r"([0-9]{20})\.segment")
_FIRST: Final = struct.Struct("<8sII")
_REST: Final = struct.Struct("<Q")

_POSITION_BITS: Final = 40  # a segment can hold a TiB, the journal 8 million segments
_POSITION_MASK: Final = (1 << _POSITION_BITS) - 1


def global_position(number: int, position: int) -> int:
    """Return a position in the whole journal as one integer: the segment number and the position in its file."""
    return (number << _POSITION_BITS) | position


def split_position(place: int) -> tuple[int, int]:
    return place >> _POSITION_BITS, place & _POSITION_MASK


def segment_path(directory: Path, number: int) -> Path:
    return directory / f"{number:020d}{SEGMENT_SUFFIX}"


def segment_number(name: str) -> int | None:
    match = _NAME.fullmatch(name)
    return None if match is None else int(match[1])


def open_segment_file(files: FileSystem, directory: Path, number: int) -> File:
    """Open the file of a segment.

    Raises:
        JournalCorrupt: the file is longer than any segment.
        OSError: the file cannot be opened.
    """
    path = segment_path(directory, number)
    file = files.open(path)
    if (size_bytes := file.size_bytes()) > SEGMENT_FILE_BYTES_MAX:
        raise JournalCorrupt(
            f"{path} has {size_bytes} bytes, but a segment has at most {SEGMENT_FILE_BYTES_MAX}; nothing was changed. "
            "Restore the file from a backup, or cut off what another program appended (truncate -s)"
        )
    return file


def encode_header(identity: int) -> bytes:
    rest = _REST.pack(identity)
    return (_FIRST.pack(MAGIC, VERSION, crc32c(rest)) + rest).ljust(HEADER_SPACE, b"\0")


def decode_header(block: Buffer) -> int | None:
    """Return the identity of a segment from its first block; None if the block is not a valid header."""
    if len(block) < HEADER_SPACE:
        return None
    magic, version, crc = _FIRST.unpack_from(block)
    rest = bytes(block[_FIRST.size : _FIRST.size + _REST.size])
    if magic != MAGIC or version != VERSION or crc != crc32c(rest):
        return None
    (identity,) = _REST.unpack(rest)
    return int(identity)


class Segment:
    """A segment file for writing, with a pool of open files.

    The kernel reports a failed write-back once per open file description. If commits shared one, the sync of one commit
    could consume the error that lost another's data. So each commit between write and sync has a `File` of its own,
    opened before its first byte is written.
    """

    __slots__ = ("_descriptors", "_files", "identity", "number", "path", "zero_filled")

    def __init__(self, files: FileSystem, path: Path, number: int, identity: int, *, zero_filled: bool) -> None:
        self._files = files
        self._descriptors: list[File] = []
        self.path = path
        self.number = number
        self.identity = identity
        self.zero_filled = zero_filled

    def take_file(self) -> File:
        """Return a file for the exclusive use of one commit, until `give_back`.

        Raises:
            OSError: no file can be opened.
        """
        return self._descriptors.pop() if self._descriptors else self._files.open(self.path)

    def fill_up(self, size_bytes: int) -> None:
        """Extend the file to `size_bytes`, with a hole at its end. Only files of full size can be recycled."""
        file = self.take_file()
        if file.size_bytes() < size_bytes:
            file.truncate(size_bytes)
        self.give_back(file)

    def give_back(self, file: File) -> None:
        """Return the file of a durable commit to the pool. The file of a failed commit must not be returned."""
        self._descriptors.append(file)


def create_segment(files: FileSystem, directory: Path, number: int) -> Segment:
    """Create a durable segment that grows with its frames: faster to create than a spare, but slower to sync.

    Raises:
        OSError: the disk failed. No file is left.
    """
    identity = secrets.randbits(64)
    path = segment_path(directory, number)
    file = files.open(path, create=True)
    try:
        write_all(file, [encode_header(identity)], 0)
        # Header and name are durable before the first frame, so a segment with frames always has a valid header.
        file.sync_data()
        files.sync_directory(directory)
    except OSError:
        files.unlink(path)
        raise
    segment = Segment(files, path, number, identity, zero_filled=False)
    segment.give_back(file)
    return segment


def prepare_spare(files: FileSystem, directory: Path, size_bytes: int, is_stopped: Callable[[], bool]) -> int | None:
    """Write a zero-filled spare, so that later syncs have no metadata to write; return its identity.

    That saves 35-60 % of the time of a sync. posix_fallocate does not help: the first write to an unwritten extent
    costs as much as growing the file. Returns None if `is_stopped` returned True.

    Raises:
        OSError: the disk failed, or has less space than SPARES_FREE_MIN spares need. No file is left.
    """
    identity = secrets.randbits(64)
    path = directory / PREPARING_NAME
    if PREPARING_NAME in files.list_directory(directory):
        files.unlink(path)  # left by an interrupted attempt
    if files.free_bytes(directory) < SPARES_FREE_MIN * size_bytes:
        raise OSError(errno.ENOSPC, "too little free space for a zero-filled segment", str(directory))
    file = files.open(path, create=True)
    try:
        if not _zero_fill(file, identity, size_bytes, is_stopped):
            return None
    except OSError:
        files.unlink(path)
        raise
    # Only a complete, synced file gets the name of a spare.
    files.rename(path, directory / SPARE_NAME)
    files.sync_directory(directory)
    return identity


def _zero_fill(file: File, identity: int, size_bytes: int, is_stopped: Callable[[], bool]) -> bool:
    write_all(file, [encode_header(identity)], 0)
    zeros = bytes(ZERO_FILL_CHUNK_BYTES)
    position, unsynced = HEADER_SPACE, 0
    while position < size_bytes:
        if is_stopped():
            return False
        chunk = memoryview(zeros)[: size_bytes - position]
        write_all(file, [chunk], position)
        position += len(chunk)
        unsynced += len(chunk)
        if unsynced >= ZERO_FILL_SYNC_BYTES:
            file.sync_data()
            unsynced = 0
    file.sync_data()
    return True


def activate_spare(files: FileSystem, directory: Path, number: int, identity: int) -> Segment:
    """Rename the spare to segment `number`, replacing an empty segment of that number.

    May be repeated after an OSError.
    """
    path = segment_path(directory, number)
    if SPARE_NAME in files.list_directory(directory):  # otherwise an earlier attempt has renamed it
        files.rename(directory / SPARE_NAME, path)
    # The name must be durable before the first frame: recovery never looks for frames in a spare.
    files.sync_directory(directory)
    return Segment(files, path, number, identity, zero_filled=True)


def recycle_segment(files: FileSystem, directory: Path, path: Path, size_bytes: int) -> int | None:
    """Turn an archived segment into a spare and return its identity; None if its file is missing or has another size.

    The old frames stay in place, and the new identity makes them foreign.
    """
    names = files.list_directory(directory)
    if path.name not in names or files.open(path).size_bytes() != size_bytes:
        return None  # missing: an earlier call was interrupted
    if PREPARING_NAME in names:
        files.unlink(directory / PREPARING_NAME)
    preparing = directory / PREPARING_NAME
    # While the header is rewritten, the file must not have a valid name. A crash in between leaves a worthless
    # `preparing`.
    files.rename(path, preparing)
    files.sync_directory(directory)
    identity = secrets.randbits(64)
    file = files.open(preparing)
    write_all(file, [encode_header(identity)], 0)
    file.sync_data()
    files.rename(preparing, directory / SPARE_NAME)
    files.sync_directory(directory)
    return identity


def discard_segment(files: FileSystem, path: Path) -> None:
    """Delete a segment file durably. May be repeated after an OSError."""
    if path.name in files.list_directory(path.parent):
        files.unlink(path)
    files.sync_directory(path.parent)


def is_zero_after(file: File, position: int) -> bool:
    """Return whether the file has bytes at `position` and later, and all of them are zero."""
    size_bytes = file.size_bytes()
    if position >= size_bytes:
        return False
    zeros = bytes(min(ZERO_FILL_CHUNK_BYTES, size_bytes - position))
    while (position := file.data_from(position)) < size_bytes:
        piece = file.read(len(zeros), position)
        if piece != zeros[: len(piece)]:
            return False
        position += len(piece)
    return True
