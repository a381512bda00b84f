"""The names in the directory of a journal.

Rules of this file: read only; what is no segment is worth nothing or, the spare, belongs to nobody yet.
"""

from collections.abc import Iterator
from pathlib import Path

from pipeline_broker.inspect.errors import NoDataDirectoryError
from pipeline_broker.inspect.findings import Leftover, SpareFound
from pipeline_broker.inspect.journal_segment import journal_file
from pipeline_broker.log.journal.segment import HEADER_SPACE, PREPARING_NAME, SEGMENT_SUFFIX, SPARE_NAME, decode_header

__all__ = ["extra_files", "segment_numbers"]


def _names(directory: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise NoDataDirectoryError(f"{directory} cannot be read: {error.strerror}") from None


def _number(name: str) -> int | None:
    stem = name.removesuffix(SEGMENT_SUFFIX)
    return int(stem) if stem != name and stem.isascii() and stem.isdecimal() else None


def segment_numbers(directory: Path) -> list[int]:
    """The segments that there are, in order.

    Raises:
        NoDataDirectoryError: the directory cannot be read.
    """
    return sorted(number for name in _names(directory) if (number := _number(name)) is not None)


def extra_files(directory: Path) -> Iterator[SpareFound | Leftover]:
    """All other files."""
    for name in _names(directory):
        if _number(name) is not None:
            continue
        path = directory / name
        try:
            size_bytes = path.stat().st_size
            if name != SPARE_NAME:
                is_unfinished = name == PREPARING_NAME
                reason = "a spare that is not finished" if is_unfinished else "no file of a journal"
                yield Leftover(journal_file(name), 0, size_bytes, reason)
                continue
            with path.open("rb") as file:
                header = file.read(HEADER_SPACE)
        except OSError:
            continue  # a running broker has found a use for it
        if decode_header(header) is None:
            yield Leftover(journal_file(name), 0, size_bytes, "a spare without a valid header")
        else:
            yield SpareFound(journal_file(name), size_bytes)
