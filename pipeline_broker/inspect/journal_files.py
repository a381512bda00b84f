"""The names in the directory of a journal: segments, spares and other files."""

from collections.abc import Iterator
from pathlib import Path

from pipeline_broker.files.errors import UnfitFileError, reason_of
from pipeline_broker.files.file_system import FileSystem
from pipeline_broker.inspect.errors import NoDataDirectoryError
from pipeline_broker.inspect.findings import Finding, Leftover, SpareFound
from pipeline_broker.inspect.journal_segment import journal_file
from pipeline_broker.inspect.leftovers import some_of
from pipeline_broker.log.journal.segment import HEADER_SPACE, PREPARING_NAME, SPARE_NAME, decode_header, segment_number
from pipeline_broker.log.journal.taken_directory import JOURNAL_NAME

__all__ = ["extra_files", "segment_numbers"]


def _names(files: FileSystem, directory: Path) -> list[str]:
    try:
        return sorted(files.list_directory(directory))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise NoDataDirectoryError(f"{directory} cannot be read: {reason_of(error, directory)}") from None


def segment_numbers(files: FileSystem, directory: Path) -> list[int]:
    """Return the sorted numbers of the segments.

    Raises:
        NoDataDirectoryError: the directory cannot be read.
    """
    return sorted(number for name in _names(files, directory) if (number := segment_number(name)) is not None)


def extra_files(files: FileSystem, directory: Path) -> Iterator[Finding]:
    """Yield a finding for each file that is not a segment, spares first.

    Raises:
        NoDataDirectoryError: the directory cannot be read.
    """
    names = [name for name in _names(files, directory) if segment_number(name) is None]
    names.sort(key=lambda name: name not in {SPARE_NAME, PREPARING_NAME})
    yield from some_of(names, JOURNAL_NAME, lambda name: _extra_file(files, directory / name))


def _extra_file(files: FileSystem, path: Path) -> Iterator[SpareFound | Leftover]:
    name, header = path.name, None
    try:
        size_bytes = path.lstat().st_size
        reason = "an unfinished spare" if name == PREPARING_NAME else "not a file of the journal"
        if name == SPARE_NAME:
            reason = "a spare without a valid header"
            header = decode_header(files.open(path).read(HEADER_SPACE, 0))
    except UnfitFileError as error:
        reason = error.strerror or str(error)
    except OSError:
        return  # a running broker has renamed or deleted it
    yield (
        Leftover(journal_file(name), 0, size_bytes, reason)
        if header is None
        else SpareFound(journal_file(name), size_bytes)
    )
