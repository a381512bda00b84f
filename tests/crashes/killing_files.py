"""The broker's file system, counted, and the end of the process at one operation of it.

Rules of this file: it runs in the broker (`broker_variant.py counting`) and is told what to do by two variables of the
environment: `OPERATIONS_LOG` names a file to which a line is appended before each operation that changes something, and
`KILL_AT` says at which the process ends: `write 7 before`, `write 7 half` (some of the bytes are written) or
`write 7 after`. Operations are counted by kind, over all threads, from 1. SIGKILL to a process ends all its threads
before the call returns, so nothing follows.
"""

import collections
import os
import signal
import threading

from pipeline_broker.files.file_system import BLOCK_BYTES, SystemFileSystem

OPERATIONS_LOG = "OPERATIONS_LOG"
KILL_AT = "KILL_AT"
BEFORE, HALF, AFTER = "before", "half", "after"
OPERATIONS = (
    "create",
    "write",
    "sync",
    "truncate",
    "rename",
    "unlink",
    "make directory",
    "remove directory",
    "sync directory",
)


def kill_at(operation, number, when=BEFORE):
    """The value of `KILL_AT`."""
    return f"{operation.replace(' ', '-')} {number} {when}"


class _Counter:
    """Counts, logs and kills; used by all threads."""

    def __init__(self):
        self._lock = threading.Lock()
        self._counts = collections.Counter()
        self._log = os.open(os.environ[OPERATIONS_LOG], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        operation, number, self._when = (os.environ.get(KILL_AT) or kill_at("nothing", 0)).split()
        self._victim = operation.replace("-", " "), int(number)

    def run(self, operation, path, call, half=None):
        """Do it, unless it is the one; `half` does some of it."""
        with self._lock:
            self._counts[operation] += 1
            is_victim = (operation, self._counts[operation]) == self._victim
            os.write(self._log, f"{operation.replace(' ', '-')} {path}\n".encode())
        if not is_victim:
            return call()
        if self._when == HALF:
            half()
        elif self._when == AFTER:
            call()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("this process is dead")


class _CountedFile:
    __slots__ = (
        "_counter",
        "_file",
        "_path",
        "data_from",
        "descriptor",
        "read",
        "read_ahead",
        "read_blocks",
        "read_cached",
        "size_bytes",
    )

    def __init__(self, file, path, counter):
        self._file, self._path, self._counter = file, path, counter
        self.read, self.read_cached = file.read, file.read_cached
        self.read_ahead, self.size_bytes, self.data_from = file.read_ahead, file.size_bytes, file.data_from
        self.descriptor, self.read_blocks = file.descriptor, file.read_blocks

    def write(self, parts, position):
        def half():
            data = b"".join(parts)
            self._file.write([data[: len(data) // 2]], position)

        return self._counter.run("write", self._path, lambda: self._file.write(parts, position), half)

    def write_blocks(self, blocks, position):
        def half():
            self._file.write_blocks(blocks[: len(blocks) // (2 * BLOCK_BYTES) * BLOCK_BYTES], position)

        return self._counter.run("write", self._path, lambda: self._file.write_blocks(blocks, position), half)

    def sync_data(self):
        self._counter.run("sync", self._path, self._file.sync_data)

    def truncate(self, size_bytes):
        self._counter.run("truncate", self._path, lambda: self._file.truncate(size_bytes))


class KillingFileSystem(SystemFileSystem):
    """See the module."""

    def __init__(self):
        super().__init__()
        self._counter = _Counter()

    def open(self, path, *, create=False):
        def call():
            return super(KillingFileSystem, self).open(path, create=create)

        file = self._counter.run("create", path, call) if create else call()
        return _CountedFile(file, path, self._counter)

    def rename(self, source, target):
        self._counter.run("rename", target, lambda: super(KillingFileSystem, self).rename(source, target))

    def unlink(self, path):
        self._counter.run("unlink", path, lambda: super(KillingFileSystem, self).unlink(path))

    def make_directory(self, path):
        self._counter.run("make directory", path, lambda: super(KillingFileSystem, self).make_directory(path))

    def remove_directory(self, path):
        self._counter.run("remove directory", path, lambda: super(KillingFileSystem, self).remove_directory(path))

    def sync_directory(self, path):
        self._counter.run("sync directory", path, lambda: super(KillingFileSystem, self).sync_directory(path))
