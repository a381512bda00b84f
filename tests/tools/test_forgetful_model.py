"""The same script leaves the same files on the forgetful file system and on the one in memory, power cuts included."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.files.file_system import SystemFileSystem
from tests.crashes.lengths import examples
from tests.files.memory_file_system import MemoryFileSystem

pytestmark = pytest.mark.faults
NAMES = ("a", "b", "c")
READ_BYTES = 1 << 16
SEED = 0
EIO = "EIO"

names = st.sampled_from(NAMES)
positions = st.integers(0, 6_000)
STEPS = st.one_of(
    st.tuples(st.just("create"), names),
    st.tuples(st.just("open"), names),
    st.tuples(st.just("write"), names, positions, st.binary(min_size=1, max_size=5_000)),
    st.tuples(st.just("truncate"), names, positions),
    st.tuples(st.just("sync_data"), names),
    st.tuples(st.just("fail_sync"), names),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("unlink"), names),
    st.tuples(st.just("sync_directory")),
    st.tuples(st.just("cut"), st.booleans()),
)


class Run:
    """A script on one of the two file systems; `path` is its directory."""

    def __init__(self, files, path):
        self.files = files
        self.path = path
        self.open_files = {}

    def do(self, step):
        """Gives what the step gave, an error by its type."""
        kind, *arguments = step
        try:
            return getattr(self, kind)(*arguments)
        except OSError as error:
            return type(error), error.errno

    def create(self, name):
        self.open_files[name] = self.files.open(self.path / name, create=True)

    def open(self, name):
        self.open_files[name] = self.files.open(self.path / name)

    def write(self, name, position, data):
        file = self.open_files.get(name)
        return file and file.write([data], position)

    def truncate(self, name, size_bytes):
        if file := self.open_files.get(name):
            file.truncate(size_bytes)

    def sync_data(self, name):
        if file := self.open_files.get(name):
            file.sync_data()

    def rename(self, source, target):
        if source != target:
            self.files.rename(self.path / source, self.path / target)

    def unlink(self, name):
        self.files.unlink(self.path / name)

    def sync_directory(self):
        self.files.sync_directory(self.path)

    def contents(self):
        """Name -> data, by the names and by what is open."""
        found = {}
        for name in sorted(self.files.list_directory(self.path)):
            found[name] = bytes(self.files.open(self.path / name).read(READ_BYTES, 0))
        for name, file in self.open_files.items():
            found["open", name] = bytes(file.read(READ_BYTES, 0))
        return found


class MemoryRun(Run):
    def fail_sync(self, name):
        def fail(operation, path):
            if operation == "sync":
                raise OSError(5, EIO)

        self.files.before = fail
        try:
            self.sync_data(name)
        finally:
            self.files.before = lambda *_: None

    def cut(self, keeps):
        self.open_files.clear()
        self.files.power_cut(lambda _: int(keeps))


class MountRun(Run):
    def __init__(self, files, mount):
        super().__init__(files, mount.path)
        self._mount = mount

    def fail_sync(self, name):
        self._mount.add_fault("sync", error=EIO)
        try:
            self.sync_data(name)
        finally:
            self._mount.ask("clear_faults")

    def cut(self, keeps):
        self.open_files.clear()
        self._mount.cut_and_power_on(SEED, "everything" if keeps else "nothing")

    def clear(self):
        self.open_files.clear()
        for name in self.files.list_directory(self.path):
            self.unlink(name)
        self._mount.ask("settle_all")


@pytest.fixture(scope="module")
def mount(mount_forgetful, tmp_path_factory):
    with mount_forgetful(tmp_path_factory.mktemp("model")) as mounted:
        yield mounted


@settings(max_examples=examples(60))
@given(steps=st.lists(STEPS, max_size=40))
def test_a_script_does_the_same_on_both(mount, steps):
    files, directory = MemoryFileSystem(), Path("/d")
    files.make_directory(directory)
    files.sync_directory(directory.parent)
    real, model = MountRun(SystemFileSystem(), mount), MemoryRun(files, directory)
    with contextlib.closing(contextlib.ExitStack()) as ending:
        ending.callback(real.clear)
        for step in [*steps, ("cut", False)]:
            assert real.do(step) == model.do(step), step
            assert real.contents() == model.contents(), step
