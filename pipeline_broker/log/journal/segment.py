"""One file of the journal.

Rules of this file: a segment knows its number, its identity and its file; what its frames mean is not known here. Its
identity is drawn anew whenever disk space becomes a segment. Names: `<20 digits>.segment` holds frames, the digits
are its number; `spare` has no frame of its identity behind its header, guaranteed, because it is renamed, and the
directory synced, before the first one is written to it: zeros at first, frames of earlier identities when its space is
used again; `preparing` is a spare not yet finished and worth nothing.

Layout of the first 4096 bytes (little-endian): magic 8, version 4, CRC-32C 4 (of what follows it), identity 8, zeros.
"""

import errno
import re
import secrets
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pipeline_broker.files.file_system import File, FileSystem, write_all
from pipeline_broker.log.errors import JournalCorrupt
from pipeline_broker.log.journal.entry import Buffer
from pipeline_broker.log.journal.frame import BODY_SIZE_MAX, FRAME_HEADER_SIZE
from pipeline_broker.records.checksum import crc32c

MAGIC: Final = b"PBJOURNL"
VERSION: Final = 1
HEADER_SPACE: Final = 4096  # frames start on a block of their own: the header is never rewritten with a frame
SEGMENT_SUFFIX: Final = ".segment"
SEGMENT_FILE_BYTES_MAX: Final = HEADER_SPACE + FRAME_HEADER_SIZE + BODY_SIZE_MAX
"""A segment ends before it gets too long, but for one that holds nothing but one commit."""
SPARE_NAME: Final = "spare"
PREPARING_NAME: Final = "preparing"
ZERO_FILL_CHUNK_BYTES: Final = 1 << 20
SPARES_FREE_MIN: Final = 2  # space for so many spares must be free before one is written: commits need it more
ZERO_FILL_SYNC_BYTES: Final = 8 << 20  # synced in steps, so that commits never queue behind one sync of a whole segment

_NAME: Final = re.compile(r"([0-9]{20})\.segment")
_FIRST: Final = struct.Struct("<8sII")
_REST: Final = struct.Struct("<Q")

_POSITION_BITS: Final = 40  # a segment can hold a TiB, the journal 8 million segments
_POSITION_MASK: Final = (1 << _POSITION_BITS) - 1


def global_position(number: int, position: int) -> int:
    """A place in the journal as one integer."""
    return (number << _POSITION_BITS) | position


def split_position(place: int) -> tuple[int, int]:
    """The segment's number and the position in it."""
    return place >> _POSITION_BITS, place & _POSITION_MASK


def segment_path(directory: Path, number: int) -> Path:
    """Where the segment's file is."""
    return directory / f"{number:020d}{SEGMENT_SUFFIX}"


def segment_number(name: str) -> int | None:
    """Return the number of a segment by the name of its file; None for a file that is not a segment."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match[1])


def open_segment_file(files: FileSystem, directory: Path, number: int) -> File:
    """Open the file of a segment.

    Raises:
        JournalCorrupt: it is longer than any segment.
        OSError: it cannot be opened.
    """
    path = segment_path(directory, number)
    file = files.open(path)
    if (size_bytes := file.size_bytes()) > SEGMENT_FILE_BYTES_MAX:
        raise JournalCorrupt(
            f"{path} has {size_bytes} bytes, and a segment has at most {SEGMENT_FILE_BYTES_MAX}: nothing was changed; "
            "restore the file from a backup, or cut off what another program appended (truncate -s)"
        )
    return file


def encode_header(identity: int) -> bytes:
    """The first block of a segment."""
    rest = _REST.pack(identity)
    return (_FIRST.pack(MAGIC, VERSION, crc32c(rest)) + rest).ljust(HEADER_SPACE, b"\0")


def decode_header(block: Buffer) -> int | None:
    """The identity; None when this is no header of a segment."""
    if len(block) < HEADER_SPACE:
        return None
    magic, version, crc = _FIRST.unpack_from(block)
    rest = bytes(block[_FIRST.size : _FIRST.size + _REST.size])
    if magic != MAGIC or version != VERSION or crc != crc32c(rest):
        return None
    (identity,) = _REST.unpack(rest)
    return int(identity)


class Segment:
    """The file that frames are being written to, or were.

    Several commits may be between write and sync at once, and the kernel reports a failed write-back once per open
    file description: were it shared, the one sync could take the error that another's data met. So each such commit
    has a `File` of its own, opened before its first byte is written.
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
        """A file for one commit, used by nobody else until it is given back."""
        return self._descriptors.pop() if self._descriptors else self._files.open(self.path)

    def fill_up(self, size_bytes: int) -> None:
        """Make the file so long, with a hole at its end: only a whole segment's space can be used again."""
        file = self.take_file()
        if file.size_bytes() < size_bytes:
            file.truncate(size_bytes)
        self.give_back(file)

    def give_back(self, file: File) -> None:
        """The commit is durable; a commit that failed keeps its file out of use."""
        self._descriptors.append(file)


def create_segment(files: FileSystem, directory: Path, number: int) -> Segment:
    """A new segment that grows with its frames: quick to make, slower to sync. Durable when this returns.

    An OSError leaves no file behind.
    """
    identity = secrets.randbits(64)
    path = segment_path(directory, number)
    file = files.open(path, create=True)
    try:
        write_all(file, [encode_header(identity)], 0)
        file.sync_data()
        files.sync_directory(directory)
    except OSError:
        files.unlink(path)
        raise
    segment = Segment(files, path, number, identity, zero_filled=False)
    segment.give_back(file)
    return segment


def prepare_spare(files: FileSystem, directory: Path, size_bytes: int, is_stopped: Callable[[], bool]) -> int | None:
    """Write a spare, all its space included, so that a later sync has no metadata to write; returns its identity.

    That is worth 35-60 % of a sync's time. posix_fallocate does not do: the first write to unwritten extents costs as
    much as growing the file. None when it was stopped half-way; an OSError leaves no file behind.
    """
    identity = secrets.randbits(64)
    path = directory / PREPARING_NAME
    if PREPARING_NAME in files.list_directory(directory):
        files.unlink(path)  # an attempt that was cut short
    if files.free_bytes(directory) < SPARES_FREE_MIN * size_bytes:
        raise OSError(errno.ENOSPC, "too little free space for a zero-filled segment", str(directory))
    file = files.open(path, create=True)
    try:
        if not _zero_fill(file, identity, size_bytes, is_stopped):
            return None
    except OSError:
        files.unlink(path)
        raise
    files.rename(path, directory / SPARE_NAME)
    files.sync_directory(directory)
    return identity


def _zero_fill(file: File, identity: int, size_bytes: int, is_stopped: Callable[[], bool]) -> bool:
    """Write and sync the file; False when it was stopped half-way."""
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
    """Make the spare a segment, in place of an empty one of that number if there is one.

    Durable when this returns, before the first frame is written: see the rules. May be called again after an OSError.
    """
    path = segment_path(directory, number)
    if SPARE_NAME in files.list_directory(directory):  # else the call before came so far
        files.rename(directory / SPARE_NAME, path)
    files.sync_directory(directory)
    return Segment(files, path, number, identity, zero_filled=True)


def recycle_segment(files: FileSystem, directory: Path, path: Path, size_bytes: int) -> int | None:
    """Make a spare of a segment that nobody needs any more; its identity, or None when its file is too short or gone.

    Its frames stay where they are: they belong to an identity that is gone. It has no valid name while its header is
    written, and whatever cuts that short leaves a `preparing` behind, which is worth nothing.
    """
    names = files.list_directory(directory)
    if path.name not in names or files.open(path).size_bytes() != size_bytes:
        return None  # gone: a call before this one was cut short
    if PREPARING_NAME in names:
        files.unlink(directory / PREPARING_NAME)
    preparing = directory / PREPARING_NAME
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
    """Give the space of a segment back, unless a call before did that and could not sync it."""
    if path.name in files.list_directory(path.parent):
        files.unlink(path)
    files.sync_directory(path.parent)


def is_zero_behind(file: File, position: int) -> bool:
    """Whether there is space behind `position`, and nothing but zeros in it."""
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
