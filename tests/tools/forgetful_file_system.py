"""A file system that forgets what was not synced when its power is cut: `python -m ... MOUNT STORE`, by FUSE.

Rules of this file: it is the kernel's side of `ForgetfulDisk`, and the channel by which it is told what to do: a line
of JSON on standard input for each command, a line of JSON on standard output for each answer. The end of the input is
the end of the mount, so that nothing stays behind when whoever started it dies.

Nothing is cached in the kernel: every call comes here, and a shared memory map, which could not be kept apart from
the page cache, is refused by the kernel (ENODEV). Locks are the kernel's, and so are sockets, whose names end with
the power. There are no symbolic links and extended attributes; space cannot be reserved (`fallocate` is EOPNOTSUPP, and
`posix_fallocate` writes instead). A file that was unlinked while it is open can be read, written and
synced, but not looked at by `fstat` (ENOENT): FUSE asks by name.
"""

import errno
import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import fuse

from tests.tools.disk_faults import Fault
from tests.tools.forgetful_disk import ForgetfulDisk, Handle, failure
from tests.tools.forgetful_mount import UNMOUNT
from tests.tools.forgetful_tree import ForgetfulDirectory, ForgetfulFile

BLOCK_BYTES = 4096
NAME_BYTES_MAX = 255
ROOMY_BYTES = 1 << 40  # the free space that is told when there is no limit
SYNCED_WRITES = os.O_SYNC | os.O_DSYNC


class ForgetfulOperations(fuse.Operations):  # type: ignore[misc]  # fusepy ships no types
    """What the kernel asks for; errors are OSError, and paths are absolute within the mount."""

    use_ns = True
    flag_nullpath_ok = True  # an open file may have no name any more

    def __init__(self, disk: ForgetfulDisk, on_mounted: Callable[[], None]) -> None:
        self._disk = disk
        self._on_mounted = on_mounted
        self._lock = threading.Lock()
        self._handles: dict[int, Handle] = {}
        self._next_handle = 1
        self._sockets: dict[str, int] = {}  # modes by path

    def init(self, path: str) -> None:
        self._on_mounted()

    def getattr(self, path: str | None, info: Any = None) -> dict[str, int]:
        if (mode := self._sockets.get(path or "")) is not None:
            return {"st_mode": mode, "st_nlink": 1, **_owner()}
        node = self._handle(info).file if info is not None else self._disk.find(path or "/")
        if isinstance(node, ForgetfulDirectory):
            return {"st_mode": stat.S_IFDIR | node.mode, "st_nlink": 2, **_owner()}
        size = node.seen.size_bytes
        accessed_ns, modified_ns = node.times_ns or (node.seen.modified_ns,) * 2
        return {
            "st_mode": stat.S_IFREG | node.mode,
            "st_nlink": 1,
            "st_size": size,
            "st_blocks": -(-size // 512),
            "st_blksize": BLOCK_BYTES,
            "st_atime": accessed_ns,
            "st_mtime": modified_ns,
            "st_ctime": modified_ns,
            **_owner(),
        }

    def readdir(self, path: str, _handle: int) -> Iterator[str]:
        sockets = [name for folder, _, name in map(_split, self._sockets) if folder == path.rstrip("/")]
        return iter([".", "..", *self._disk.list_names(path), *sockets])

    def statfs(self, path: str) -> dict[str, int]:
        used, capacity = self._disk.used_bytes, self._disk.capacity_bytes
        total = used + ROOMY_BYTES if capacity is None else capacity
        free = max(0, total - used) // BLOCK_BYTES
        return {
            "f_bsize": BLOCK_BYTES,
            "f_frsize": BLOCK_BYTES,
            "f_blocks": total // BLOCK_BYTES,
            "f_bfree": free,
            "f_bavail": free,
            "f_namemax": NAME_BYTES_MAX,
        }

    def create(self, path: str, mode: int, info: Any) -> int:
        return self._keep(self._disk.create(path, stat.S_IMODE(mode), appends=bool(info.flags & os.O_APPEND)), info)

    def open(self, path: str, info: Any) -> int:
        handle = self._disk.open(path, appends=bool(info.flags & os.O_APPEND))
        return self._keep(handle, info)

    def read(self, path: str | None, size_bytes: int, position: int, info: Any) -> bytes:
        return self._disk.read(self._handle(info), size_bytes, position)

    def write(self, path: str | None, data: bytes, position: int, info: Any) -> int:
        handle = self._handle(info)
        written = self._disk.write(handle, data, position)
        if info.flags & SYNCED_WRITES:
            self._disk.sync(handle)
        return written

    def truncate(self, path: str | None, size_bytes: int, info: Any = None) -> int:
        if info is not None:
            handle = self._handle(info)
            self._disk.truncate(handle.file, size_bytes, handle)
            return 0
        node = self._disk.find(path or "/")
        if not isinstance(node, ForgetfulFile):
            raise failure(errno.EISDIR, path or "/")
        self._disk.truncate(node, size_bytes)
        return 0

    def fsync(self, path: str | None, _only_data: int, info: Any) -> int:
        self._disk.sync(self._handle(info))
        return 0

    def fsyncdir(self, path: str, _only_data: int, _handle: int) -> int:
        self._disk.sync_directory(path)
        return 0

    def release(self, path: str | None, info: Any) -> int:
        with self._lock:
            handle = self._handles.pop(info.fh)
        self._disk.close(handle)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        self._disk.make_directory(path, stat.S_IMODE(mode))
        return 0

    def mknod(self, path: str, mode: int, _device: int) -> int:
        if not stat.S_ISSOCK(mode):
            raise failure(errno.EPERM, path)
        self._disk.find(_split(path)[0] or "/")
        self._sockets[path] = mode
        return 0

    def forget_sockets(self) -> None:
        self._sockets.clear()

    def unlink(self, path: str) -> int:
        if self._sockets.pop(path, None) is None:
            self._disk.unlink(path)
        return 0

    def rmdir(self, path: str) -> int:
        self._disk.remove_directory(path)
        return 0

    def rename(self, source: str, target: str) -> int:
        self._disk.rename(source, target)
        return 0

    def link(self, target: str, source: str) -> int:
        self._disk.link(source, target)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        self._disk.find(path).mode = stat.S_IMODE(mode)
        return 0

    def chown(self, path: str, _user: int, _group: int) -> int:
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        node = self._disk.find(path)
        if isinstance(node, ForgetfulFile):
            node.times_ns = times if times is not None else (time.time_ns(),) * 2
        return 0

    def _keep(self, handle: Handle, info: Any) -> int:
        info.direct_io = 1
        with self._lock:
            info.fh = self._next_handle
            self._handles[info.fh] = handle
            self._next_handle += 1
        return 0

    def _handle(self, info: Any) -> Handle:
        with self._lock:
            return self._handles[info.fh]


def _split(path: str) -> tuple[str, str, str]:
    return path.rpartition("/")


def _owner() -> dict[str, int]:
    return {"st_uid": os.getuid(), "st_gid": os.getgid()}


class Commands:
    """What whoever started this may ask for: one method for each command."""

    def __init__(self, disk: ForgetfulDisk, on_power_on: Callable[[], None]) -> None:
        self._disk = disk
        self._on_power_on = on_power_on

    def cut(self, seed: int | str, style: str | None = None) -> dict[str, Any]:
        return attrs.asdict(self._disk.power_cut(seed, style))

    def power_on(self) -> None:
        self._on_power_on()
        self._disk.power_on()

    def losses(self) -> dict[str, Any] | None:
        """Of a power cut that a fault made."""
        return None if self._disk.losses is None else attrs.asdict(self._disk.losses)

    def add_fault(self, **fault: Any) -> None:
        self._disk.faults.add(Fault(**fault))

    def clear_faults(self) -> None:
        self._disk.faults.clear()

    def hits(self) -> list[int]:
        return self._disk.faults.hits()

    def hang(self) -> None:
        self._disk.faults.hang()

    def set_capacity(self, size_bytes: int | None) -> None:
        self._disk.capacity_bytes = size_bytes

    def settle_all(self) -> None:
        self._disk.settle_all()

    def at_risk(self, pattern: str = "*") -> tuple[int, int]:
        return self._disk.at_risk(pattern)

    def operations(self) -> dict[str, int]:
        return dict(self._disk.operations)

    def run(self, line: str) -> dict[str, Any]:
        """Carry out a line; what is wrong with it is told, not raised."""
        try:
            arguments = json.loads(line)
            return {"answer": getattr(self, arguments.pop("command"))(**arguments)}
        except Exception as error:  # noqa: BLE001 - whoever asked is told, whatever it was
            return {"error": repr(error)}


def say(answer: dict[str, Any]) -> None:
    """One line to whoever started this."""
    print(json.dumps(answer), flush=True)


def serve_commands(commands: Commands, mount: str) -> None:
    """Until the input ends, which unmounts."""
    for line in sys.stdin:
        say(commands.run(line))
    subprocess.run([*UNMOUNT, mount], check=False)
    os._exit(0)


def main() -> None:
    mount, store = sys.argv[1:]
    disk = ForgetfulDisk(Path(store))
    operations = ForgetfulOperations(disk, lambda: say({"answer": "mounted"}))
    commands = Commands(disk, operations.forget_sockets)
    threading.Thread(target=serve_commands, args=(commands, mount), daemon=True).start()
    fuse.FUSE(
        operations,
        mount,
        foreground=True,
        raw_fi=True,
        auto_unmount=True,
        big_writes=True,
        hard_remove=True,
        fsname="forgetful",
        attr_timeout=0,
        entry_timeout=0,
        negative_timeout=0,
    )


if __name__ == "__main__":
    main()
