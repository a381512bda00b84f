"""Files and names as everybody sees them, and as the disk has them.

Rules of this file: the bytes of a file are in two real files without names, one as it is seen and one as it is on the
disk; what lies between the two is a list of changes. Names are in memory, twice as well. A name is durable when its
directory was synced, and the data of a file when the file was: neither makes the other so. A rename is one change,
whatever directories it joins: syncing one of them is enough. Nothing here locks; the disk does.
"""

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs

from tests.tools.forgetful_changes import DataChange, Survival

COPY_BYTES = 1 << 20


class Extent:
    """Bytes in a file of the real file system that has no name and goes with this object."""

    def __init__(self, store: Path) -> None:
        self._descriptor, path = tempfile.mkstemp(dir=store)
        Path(path).unlink()

    def __del__(self) -> None:
        os.close(self._descriptor)

    @property
    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    @property
    def modified_ns(self) -> int:
        return os.fstat(self._descriptor).st_mtime_ns

    def read(self, size_bytes: int, position: int) -> bytes:
        return os.pread(self._descriptor, size_bytes, position)

    def apply(self, change: DataChange) -> None:
        """Write, or truncate."""
        if change.data is None:
            os.ftruncate(self._descriptor, change.position)
            return
        done = 0
        while done < len(change.data):
            done += os.pwrite(self._descriptor, memoryview(change.data)[done:], change.position + done)

    def copy_from(self, other: "Extent") -> None:
        """Hold what another one holds."""
        os.ftruncate(self._descriptor, 0)
        position = 0
        while data := other.read(COPY_BYTES, position):
            os.pwrite(self._descriptor, data, position)
            position += len(data)


class ForgetfulFile:
    """One file, whatever it is called."""

    def __init__(self, store: Path, mode: int) -> None:
        self.mode = mode
        self.times_ns: tuple[int, int] | None = None
        self.path = ""  # as it was named last
        self.open_count = 0
        #: How many syncs of it have failed; each open file is told of the last one.
        self.errors = 0
        self.seen = Extent(store)
        self._durable = Extent(store)
        self.pending: list[DataChange] = []

    def change(self, seen: DataChange, lands: DataChange) -> None:
        """A write or truncation, and how it will reach the disk: the same, unless the disk is at fault."""
        self.seen.apply(seen)
        self.pending.append(lands)

    def settle(self) -> None:
        """Everything written reaches the disk."""
        for change in self.pending:
            self._durable.apply(change)
        self.pending.clear()

    def lose_pending(self) -> None:
        """A write-back failed: what was to be written can be read on, and no later sync will write it."""
        self.pending.clear()
        self.errors += 1

    def cut(self, survival: Survival) -> int:
        """Lose power; gives how many bytes of the changes survived."""
        kept = 0
        for change in self.pending:
            for part in survival.parts_of(change):
                self._durable.apply(part)
                kept += part.size_bytes
        self.pending.clear()
        self.errors = 0
        self.seen.copy_from(self._durable)
        return kept


class ForgetfulDirectory:
    """One directory."""

    def __init__(self, mode: int) -> None:
        self.mode = mode
        self.seen: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node = ForgetfulFile | ForgetfulDirectory


@attrs.frozen(eq=False)
class NameChange:
    """Names that came and went at once: (directory, name, what it names now or None)."""

    number: int
    edits: tuple[tuple[ForgetfulDirectory, str, Node | None], ...]

    def touches(self, directories: set[int]) -> bool:
        return any(id(directory) in directories for directory, _, _ in self.edits)


class ForgetfulTree:
    """All names, from the root."""

    def __init__(self) -> None:
        self.root = ForgetfulDirectory(0o755)
        self.pending: list[NameChange] = []

    def change(self, number: int, *edits: tuple[ForgetfulDirectory, str, Node | None]) -> None:
        """Names change as everybody sees them."""
        for directory, name, node in edits:
            _set(directory.seen, name, node)
        self.pending.append(NameChange(number, edits))

    def settle(self, directory: ForgetfulDirectory) -> None:
        """The names in a directory reach the disk, with what is bound to them by renames."""
        bound = {id(directory)}
        while True:
            more = {id(edit[0]) for change in self.pending if change.touches(bound) for edit in change.edits} | bound
            if more == bound:
                break
            bound = more
        settled = [change for change in self.pending if change.touches(bound)]
        self.pending = [change for change in self.pending if not change.touches(bound)]
        for change in settled:
            self._apply_durably(change)

    def settle_all(self) -> None:
        for change in self.pending:
            self._apply_durably(change)
        self.pending = []

    def cut(self, survival: Survival) -> int:
        """Lose power; gives how many of the changes survived."""
        kept = [change for change in self.pending if survival.keeps_name(change.number)]
        for change in kept:
            self._apply_durably(change)
        self.pending = []
        for directory in self._durable_directories():
            directory.seen = dict(directory.durable)
        self._note_paths(self.root, "")
        return len(kept)

    def _note_paths(self, directory: ForgetfulDirectory, path: str) -> None:
        for name, node in directory.seen.items():
            if isinstance(node, ForgetfulDirectory):
                self._note_paths(node, f"{path}/{name}")
            else:
                node.path = f"{path}/{name}"

    def files(self) -> Iterator[ForgetfulFile]:
        """Every file that has a name which is seen; each once."""
        found = {id(node): node for directory in self._seen_directories() for node in directory.seen.values()}
        return (node for node in found.values() if isinstance(node, ForgetfulFile))

    def all_files(self) -> Iterator[ForgetfulFile]:
        """Every file that has or may have a name on the disk; each once."""
        listed = [directory.durable.values() for directory in self._durable_directories()]
        changed = [edit[2] for change in self.pending for edit in change.edits]
        found = {id(node): node for node in itertools.chain(self.files(), *listed, changed) if node is not None}
        return (node for node in found.values() if isinstance(node, ForgetfulFile))

    def _apply_durably(self, change: NameChange) -> None:
        for directory, name, node in change.edits:
            if node is not None and any(edit[2] is None for edit in change.edits):
                self._forget_other_names(node)
            _set(directory.durable, name, node)

    def _forget_other_names(self, node: Node) -> None:
        """Of two renames in a row the first may be lost: the name that it would have taken away goes all the same."""
        for directory in list(self._durable_directories()):
            for name in [name for name, other in directory.durable.items() if other is node]:
                del directory.durable[name]

    def _seen_directories(self) -> Iterator[ForgetfulDirectory]:
        waiting = [self.root]
        while waiting:
            yield (directory := waiting.pop())
            waiting += [node for node in directory.seen.values() if isinstance(node, ForgetfulDirectory)]

    def _durable_directories(self) -> Iterator[ForgetfulDirectory]:
        waiting = [self.root]
        while waiting:
            yield (directory := waiting.pop())
            waiting += [node for node in directory.durable.values() if isinstance(node, ForgetfulDirectory)]


def _set(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node
