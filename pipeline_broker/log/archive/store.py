"""Where the files of the archive are: the interface that a directory and an object store share.

Rules of this file: names are `<folder>/<file>`, a folder for each partition. One thread writes (every method that
changes something), any thread reads, while something is written too. Nothing here knows what the files hold; what of
them counts is decided by a manifest, elsewhere. Errors are OSError, FileNotFoundError for a name that is not there.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from pipeline_broker.log.journal.entry import Buffer


class SegmentStore(Protocol):
    """Files that grow at their end, are read anywhere, and are replaced or deleted as a whole."""

    def folders(self) -> list[str]:
        """The folders in order; one without files may be among them or not."""

    def names(self, folder: str) -> list[str]:
        """The files in a folder, without its name, in order; none when there is no such folder."""

    def size_bytes(self, name: str) -> int:
        """How long a file is."""

    def write(self, name: str, parts: Sequence[Buffer], position: int) -> None:
        """Write the parts one behind the other; the file ends behind them, whatever was there before.

        File and folder are made when they are not there. Raises ShortFile, with nothing changed, when the position is
        beyond the end. It can be read at once, and is durable after `sync`. After an OSError the file is as it was up
        to the position, or up to its end when it was synced last, whichever is less.
        """

    def sync(self, names: Iterable[str]) -> None:
        """Return when all that was written to these files survives a power cut, with the names of file and folder.

        After an OSError nothing may be believed to be durable that was not before: write it again, never sync again.
        """

    def read(self, name: str, size_bytes: int, position: int) -> Buffer:
        """So many bytes; fewer only at the end of the file."""

    def read_cached(self, name: str, size_bytes: int, position: int) -> Buffer | None:
        """The same without waiting for a disk or a network; None when that is not possible, also for no such file."""

    def read_ahead(self, name: str, size_bytes: int, position: int) -> None:
        """Say that these bytes will be read soon: a hint, whatever comes of it."""

    def replace(self, source: str, target: str) -> None:
        """Give a file another name of its folder, in place of the file of that name; durable when this returns.

        At every moment, and after a power cut, the target is wholly the old file or wholly the new one.
        """

    def delete(self, names: Iterable[str]) -> None:
        """Remove files, durably when this returns; those that are not there are no error."""

    def delete_folder(self, folder: str, names: Iterable[str]) -> None:
        """Remove these files of a folder, and it when no others are left, durably when this returns.

        What is not there is no error.
        """

    def free_bytes(self) -> int:
        """How many more bytes can be written."""

    def close(self) -> None:
        """Keep no file open any more."""


def split_name(name: str) -> tuple[str, str]:
    """Folder and file."""
    folder, separator, file = name.partition("/")
    assert separator, f"{name!r} is not <folder>/<file>"
    assert not {folder, file} & {"", ".", ".."}, f"{name!r} has no proper folder or file"
    assert "/" not in file, f"{name!r} has more than one folder"
    return folder, file
