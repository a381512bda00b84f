"""The storage interface of the archive's files, implemented by a directory and by an object store."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.lent_range import LentRange
from pipeline_broker.log.journal.journal_port import StoredObject

NO_ORIGINS: Mapping[int, StoredObject] = MappingProxyType({})


class SegmentStore(Protocol):
    """Files that are appended to, read anywhere, and replaced or deleted as a whole.

    Names are `<folder>/<file>`, with one folder per partition. One thread writes; any thread may read at the same time.
    Errors are OSError, and FileNotFoundError for missing names. The store knows nothing about the content.
    """

    def folders(self) -> list[str]:
        """Return all folders, sorted. Empty ones may be missing."""

    def names(self, folder: str) -> list[str]:
        """Return the file names in a folder, sorted, without the folder; empty for a missing folder."""

    def size_bytes(self, name: str) -> int: ...

    def write(
        self, name: str, parts: Sequence[Buffer], position: int, origins: Mapping[int, StoredObject] = NO_ORIGINS
    ) -> None:
        """Write the parts at a position and truncate the file after them. Create file and folder if they are missing.

        `origins` has the objects with some of the parts, by the number of the part.

        The bytes are readable at once, and durable after `sync`. After an OSError the file is unchanged below the
        position, or below its size at the last sync if that is smaller.

        Raises:
            ShortFile: the position is beyond the end. The file is unchanged.
        """

    def sync(self, names: Iterable[str]) -> None:
        """Make all writes to these files durable, and the names of files and folders.

        After an OSError nothing new may be considered durable. Write the bytes again; a repeated sync proves nothing.
        """

    def read(self, name: str, size_bytes: int, position: int) -> Buffer:
        """Return `size_bytes` bytes, fewer only at the end of the file."""

    def read_cached(self, name: str, size_bytes: int, position: int) -> Buffer | None:
        """Like `read`, without waiting for a disk or a network.

        Returns None if that is impossible or the file is missing.
        """

    def lend(self, name: str, size_bytes: int, position: int) -> LentRange | None:
        """Lend a range of a file to a response; None if the store cannot, or has lent too many.

        The range stays readable when the file is deleted or replaced.
        """

    def read_ahead(self, name: str, size_bytes: int, position: int) -> None:
        """Hint that these bytes will be read soon."""

    def replace(self, source: str, target: str) -> None:
        """Rename a file within its folder, replacing the target; durable on return.

        At every moment, also after a power cut, the target is the whole old file or the whole new one.
        """

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, durably on return. Missing files are ignored."""

    def delete_folder(self, folder: str, names: Iterable[str]) -> None:
        """Delete these files of a folder, and the folder if it is then empty; durable on return.

        Missing files and folders are ignored.
        """

    def free_bytes(self) -> int: ...

    def close(self) -> None: ...


def split_name(name: str) -> tuple[str, str]:
    folder, separator, file = name.partition("/")
    assert separator, f"{name!r} is not <folder>/<file>"
    assert not {folder, file} & {"", ".", ".."}, f"{name!r} has no proper folder or file"
    assert "/" not in file, f"{name!r} has more than one folder"
    return folder, file
