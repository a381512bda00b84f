"""Directories with records in them, mutations of their files, and a broker that opens them in a process of its own.

A mutation names its file by a number, so that it fits every directory. The process has limits on time and memory, and
notes the files that it opens; its death, or an error that is not the product's own, is a finding.
"""

import atexit
import contextlib
import functools
import json
import os
import random
import resource
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path

from hypothesis import strategies as st

from pipeline_broker.config.settings import parse_settings
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.inspect.errors import NoDataDirectoryError
from pipeline_broker.inspect.inspection import Inspection
from pipeline_broker.log.archive import manifest
from pipeline_broker.log.archive.local.archive_place import PLACE_NAME, ArchivePlace
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.journal import frame
from pipeline_broker.log.journal.clean_shutdown import MARK_NAME
from pipeline_broker.log.journal.segment import HEADER_SPACE
from pipeline_broker.node import archive_store
from pipeline_broker.node.archive_store import ArchiveStore
from pipeline_broker.node.data_directory import open_broker
from pipeline_broker.node.errors import StartError
from pipeline_broker.objects.check import check_store
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.checksum import crc32c
from tests.inspect.data_directory import Data

SECONDS_MAX = 15
"""Processor time of an inspection and a start together, which a busy machine does not change."""
WAIT_SECONDS_MAX = 120
"""For a file that never answers, such as a pipe."""
MEMORY_BYTES_MAX = 64 << 20
"""By which a start may grow: the caches that a running broker fills are counted elsewhere."""
ADDRESS_SPACE_BYTES = 1 << 30
LINE_CHARACTERS_MAX = 1_500
SPARSE_BYTES = 40 << 30
COMMITS = 14
OUTSIDE = tuple(
    map(os.path.realpath, (*{sys.prefix, sys.base_prefix}, Path(__file__).parents[2], "/proc", "/dev/urandom"))
)
"""Where an interpreter opens files by itself."""
KINDS = ("stopped", "killed")


@functools.cache
def prepared(kind):
    """A directory, made once: stopped in order, killed, or with archive and journal in a store beside it."""
    home = Path(tempfile.mkdtemp(prefix="fuzz-"))
    atexit.register(_remove, home, os.getpid())
    data = Data(home / "data", **({"store": home / "store", "wal": "objects"} if kind == "store" else {}))
    data.fill(COMMITS // 2)
    data.archive_all()
    data.fill(COMMITS - COMMITS // 2, start=COMMITS // 2)
    data.close()
    if kind == "stopped":
        _, broker = _broker(home, kind)
        broker.logs.close()
    elif kind == "killed":
        (home / "data" / MARK_NAME).unlink()  # written last, when a broker stops in order
    return home


def _remove(home, process):
    if os.getpid() == process:
        shutil.rmtree(home, ignore_errors=True)


def files_of(home):
    """All files, in order."""
    return sorted(path for path in home.rglob("*") if path.is_file() and not path.is_symlink())


def _broker(home, kind):
    config, store = parse_settings([])[0], None
    if kind == "store":
        store = ArchiveStore.find(ArchivePlace(f"file://{home / 'store'}", 1, "objects"), SystemFileSystem())
    return open_broker(home / "data", config, flush="os", store=store)


def used(home, kind, strays):
    """What a broker makes of a directory: how many records it has of them all, or why it does not start."""
    for stored in (home / "data", *([ArchivePlace(f"file://{home / 'store'}", 1, "objects")] * (kind == "store"))):
        with contextlib.suppress(NoDataDirectoryError):
            for _ in Inspection(stored).findings():
                pass
    try:
        _, broker = _broker(home, kind)
    except StartError as error:
        return {"refused": str(error)}
    try:
        with contextlib.suppress(OSError):  # ends the broker with one line
            broker.logs.archive.remove_unknown(frozenset(log.entry_key for log in broker.logs))
        lost = [os.fsdecode(path) for path in strays if not os.path.lexists(path)]
        if lost:
            return {"deleted": lost}
        return {"records": sum(_records_of(log) for log in broker.logs if log.topic == "events")}
    finally:
        broker.logs.close()


def _records_of(log):
    offset, count = log.log_start_offset, 0
    with contextlib.suppress(LogError, OSError):  # what a client gets for its own partition
        while offset < log.high_watermark:
            found = log.read(offset, 1 << 20, at_least_one=True)
            for part in found.parts if found.cold is None else found.cold():
                for header, _ in iterate_batches(part):
                    offset, count = header.last_offset + 1, count + header.record_count
    return count


def in_a_process(home, kind, strays):
    """Call `used` in a fork with limits; raises AssertionError for a finding."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _limited(home, kind, strays, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        content = answer.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"it ended with {status}, {content.decode(errors='replace')}"
    return json.loads(content)


def _limited(home, kind, strays, writing):
    """Never returns: the process ends without the handlers of the one that it is a copy of."""
    found = {"failed": "nothing"}
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(WAIT_SECONDS_MAX)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_MAX, SECONDS_MAX))
        size_bytes = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size_bytes + ADDRESS_SPACE_BYTES, resource.RLIM_INFINITY))
        # A start waits for its store by the clock, which a busy machine exceeds; a store that hangs is another test's.
        archive_store.check_store = functools.partial(check_store, seconds_max=WAIT_SECONDS_MAX / 2)
        opened = []
        sys.addaudithook(lambda event, given: event == "open" and opened.append(given[0]))
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the highest mark begins anew
        before = _high_water_bytes()
        found = used(home, kind, strays)
        found |= {"grown": _high_water_bytes() - before, "outside": _outside(home, opened)}
    except BaseException:  # noqa: BLE001 - it is told by the process that made this one
        found = {"failed": traceback.format_exc()[-2_000:]}
    finally:
        os.write(writing, json.dumps(found).encode()[: 60 << 10])
        os._exit(0)


def _high_water_bytes():
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def _outside(home, opened):
    names = [os.fsdecode(each) for each in opened if isinstance(each, str | bytes)]
    allowed = (*OUTSIDE, os.path.realpath(home))
    return [name for name in names if not os.path.realpath(name).startswith(allowed)][:3]


# What is done to files


def damage(home, mutations):
    """Carry out mutations; the files of strangers that these have added."""
    strays = []
    for mutation, *given in mutations:
        found = MUTATIONS[mutation](home, *given)
        if found is not None:
            strays.append(found)
    return strays


def _file(home, number):
    files = files_of(home)
    return files[number % len(files)] if files else None


def _changed(change):
    """A mutation of one file that is there."""

    def mutation(home, number, *given):
        path = _file(home, number)
        if path is not None:
            change(path, *given)

    return mutation


def _beginning(path):
    """A file may be as long as the disk, with holes."""
    with path.open("rb") as file:
        return file.read(1 << 20)


def _flip(path, position, bit):
    content = bytearray(_beginning(path))
    if content:
        content[position % len(content)] ^= 1 << bit
        with path.open("r+b") as file:
            file.write(content)


def _truncate(path, share):
    os.truncate(path, int(path.stat().st_size * share))


def _extend(path, size_bytes):
    os.truncate(path, path.stat().st_size + size_bytes)


def _write_over(path, seed, size_bytes):
    path.write_bytes(random.Random(seed).randbytes(size_bytes))


def _replace(path, kind):
    path.unlink()
    make(path, kind)


def make(path, kind):
    """Put something in place of a file."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound, contextlib.chdir(path.parent):
            bound.bind("short")  # such a name has at most 107 characters
            Path("short").rename(path.name)
    elif kind == "directory":
        path.mkdir()
        (path / "inside").write_bytes(b"x")
    elif kind == "sparse":
        path.touch()
        os.truncate(path, SPARSE_BYTES)
    elif kind == "empty":
        path.touch()
    elif kind == "garbage":
        path.write_bytes(bytes(range(256)) * 64)
    else:
        path.symlink_to({"device": "/dev/zero", "loop": path.name, "nowhere": "/nonexistent/x"}.get(kind, kind))


def _swap(path, number):
    others = [each for each in files_of(path.parent) if each != path]
    if others:
        other, between = others[number % len(others)], path.with_name("between")
        path.rename(between)
        other.rename(path)
        between.rename(other)


def _edit_frame(path, number, field, value):
    """Change a number in the header of a frame of the journal, or in its first entry, and make its checksum right."""
    content = bytearray(_beginning(path))
    position = HEADER_SPACE
    for _ in range(number % 4):
        header = frame.read_frame_header(content, position, len(content) - position)
        position += 0 if header is None else frame.FRAME_HEADER_SIZE + header.body_size
    header = frame.read_frame_header(content, position, len(content) - position)
    if header is None:
        return
    place = position + (8, 12, 24, 32, 60, 64)[field]  # body, count, first LSN, durable LSN, partition, batch length
    content[place : place + 4] = value.to_bytes(4, "little")
    header = frame.read_frame_header(content, position, len(content) - position)
    size_bytes = 0 if header is None else frame.FRAME_HEADER_SIZE + header.body_size
    checked = memoryview(content)[position + frame.CHECKED_FROM : position + size_bytes]
    content[position + 4 : position + 8] = crc32c(checked).to_bytes(4, "little")
    with path.open("r+b") as file:
        file.write(content)


def _edit_manifest(path, position, value):
    """Change a number in the first edit of a manifest, and make its checksum right."""
    content = bytearray(_beginning(path))
    size_bytes = manifest.frame_bytes(content, 0)
    if size_bytes is None or size_bytes > len(content):
        return
    place = manifest.FRAME_HEADER_SIZE + position % (size_bytes - manifest.FRAME_HEADER_SIZE - 4)
    content[place : place + 4] = value.to_bytes(4, "little")
    checked = memoryview(content)[manifest.CHECKED_FROM : size_bytes]
    content[4:8] = crc32c(checked).to_bytes(4, "little")
    with path.open("r+b") as file:
        file.write(content)


def _add(home, folder, name, kind):
    """A file of a stranger; what is there already stays."""
    directories = sorted({home / "data", *(path.parent for path in files_of(home))})
    path = directories[folder % len(directories)] / os.fsdecode(name)
    if os.path.lexists(path):
        return None
    make(path, kind)
    return path


def _delete(path):
    path.unlink()


MUTATIONS = {
    "flip": _changed(_flip),
    "truncate": _changed(_truncate),
    "extend": _changed(_extend),
    "write over": _changed(_write_over),
    "replace": _changed(_replace),
    "swap": _changed(_swap),
    "delete": _changed(_delete),
    "edit frame": _changed(_edit_frame),
    "edit manifest": _changed(_edit_manifest),
    "add": _add,
}

THINGS = ("fifo", "socket", "directory", "sparse", "empty", "garbage", "device", "loop", "nowhere", "/etc/passwd", "..")
_numbers = st.integers(0, 40)
_values = st.sampled_from([0, 1, 7, 2**16, 2**31 - 1, 2**31, 2**32 - 1]) | st.integers(0, 2**32 - 1)
_sizes = st.sampled_from([1, 4096, 1 << 20, 3 << 30, SPARSE_BYTES])
changes = st.one_of(
    st.tuples(st.just("flip"), _numbers, st.integers(0, 8192), st.integers(0, 7)),
    st.tuples(st.just("truncate"), _numbers, st.sampled_from([0, 0.1, 0.5, 0.9, 0.99])),
    st.tuples(st.just("extend"), _numbers, _sizes),
    st.tuples(st.just("write over"), _numbers, _numbers, st.integers(0, 9000)),
    st.tuples(st.just("replace"), _numbers, st.sampled_from(THINGS)),
    st.tuples(st.just("swap"), _numbers, _numbers),
    st.tuples(st.just("delete"), _numbers),
    st.tuples(st.just("edit frame"), _numbers, _numbers, st.integers(0, 5), _values),
    st.tuples(st.just("edit manifest"), _numbers, st.integers(0, 400), _values),
)


def stray(names):
    """The mutation that adds a file of a stranger under one of these names."""
    return st.tuples(st.just("add"), _numbers, names, st.sampled_from([each for each in THINGS if each != ".."]))


def run_one(case):
    """Damage a copy of a directory, and start on it."""
    kind, mutations = case
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        home = Path(place) / "home"
        shutil.copytree(prepared(kind), home)
        if kind == "store":
            (home / "data" / PLACE_NAME).write_text(f"file://{home / 'store'}\n1\nobjects\n", encoding="utf-8")
        strays = damage(home, mutations)
        found = in_a_process(home, kind, strays)
    said = found.get("refused", "")
    assert "failed" not in found, found["failed"]
    assert "deleted" not in found, f"files of strangers were deleted: {found}"
    assert found["grown"] <= MEMORY_BYTES_MAX, f"memory grew by {found['grown']}: {found}"
    assert not found["outside"], f"files outside of the directory were opened: {found}"
    assert said.isprintable(), f"not one line: {said!r}"
    assert len(said) <= LINE_CHARACTERS_MAX, f"a line of {len(said)} characters: {said}"
    if all(mutation == "add" for mutation, *_ in mutations):
        assert found.get("records") == 2 * COMMITS, f"records were lost: {found}"
    return found
