"""The contract of object stores, for each implementation."""

import threading

import pytest

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.files.memory_files import MemoryFiles
from pipeline_broker.objects import cloud_store, directory_store
from pipeline_broker.objects.check import check_store
from pipeline_broker.objects.delayed_store import DelayedStore
from pipeline_broker.objects.directory_store import DirectoryStore
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.opening import open_store
from pipeline_broker.objects.store import (
    DELETE_MAX,
    LIST_MAX,
    Changed,
    Exists,
    Listed,
    Missing,
    Unsure,
    delete_all,
    list_all,
)
from pipeline_broker.objects.watched_store import WatchedStore
from tests.objects import directory_server, s3_servers
from tests.spark_analysis import s3_server

STORES = (
    "memory",
    "watched and delayed",
    "directory",
    "directory in memory",
    "moto",
    "directory server",
    "gofakes3",
    "versitygw",
)
LARGE = bytes(range(256)) * (9 << 12)  # 9 MiB: more than a part of an upload


@pytest.fixture(scope="module", params=STORES)
def new_store(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("stores")
    if request.param == "memory":
        yield lambda _: MemoryStore()
    elif request.param == "watched and delayed":
        yield lambda _: WatchedStore(DelayedStore(MemoryStore(), 0.0001), lambda _: None)
    elif request.param == "directory":
        yield lambda name: DirectoryStore(SystemFileSystem(), directory / name)
    elif request.param == "directory in memory":
        yield lambda name: DirectoryStore(MemoryFiles(), directory / name)
    else:
        servers = {
            "moto": s3_servers.open_moto,
            "directory server": lambda: s3_servers.open_directory_server(directory),
            "gofakes3": s3_servers.open_gofakes3,
            "versitygw": lambda: s3_servers.open_versitygw(directory),
        }
        with servers[request.param]() as address, pytest.MonkeyPatch.context() as patch:
            for name, value in s3_servers.environment(address).items():
                patch.setenv(name, value)
            open_bucket = lambda name: open_store(f"s3://{s3_servers.BUCKET}/{name}", SystemFileSystem())  # noqa: E731
            open_bucket("first").list("")  # the threads and the connections of obstore are made once
            yield open_bucket


@pytest.fixture
def store(new_store, request):
    return new_store(f"{abs(hash(request.node.name))}/deep")


def content_of(store, name):
    return bytes(store.read(name, 0, 1 << 30).data)


def test_an_object_is_created_once(store):
    tag = store.create("a/b", [b"one", memoryview(b" two"), bytearray(b" three")])

    with pytest.raises(Exists):
        store.create("a/b", [b"other"])
    part = store.read("a/b", 0, 100)
    assert (bytes(part.data), part.start, part.size_bytes, part.tag) == (b"one two three", 0, 13, tag)


def test_an_object_is_replaced_if_it_has_the_tag(store):
    first = store.create("a", [b"first"])
    second = store.replace("a", [b"second"], first)

    with pytest.raises(Changed):
        store.replace("a", [b"third"], first)
    assert content_of(store, "a") == b"second"
    assert store.read("a", 0, 1).tag == second != first
    store.replace("a", [b"third"], second)
    assert content_of(store, "a") == b"third"


def test_a_missing_object_is_not_replaced(store):
    tag = store.create("a", [b"first"])
    store.delete(["a"])

    with pytest.raises((Changed, Unsure)):
        store.replace("a", [b"second"], tag)
    with pytest.raises(Missing):
        store.read("a", 0, 1)


@pytest.mark.parametrize("name", ["none", "a/none", "none/none"])
def test_reading_a_missing_object_fails(store, name):
    store.create("a/b", [b"x"])

    with pytest.raises(Missing):
        store.read(name, 0, 1)
    with pytest.raises(Missing):
        store.read_end(name, 1)


@pytest.mark.parametrize(
    ("start", "size", "found", "begins"),
    [(0, 4, b"0123", 0), (3, 4, b"3456", 3), (8, 4, b"89", 8), (9, 1, b"9", 9), (10, 4, b"", 10), (12, 4, b"", 10)],
)
def test_a_part_ends_with_its_object(store, start, size, found, begins):
    tag = store.create("a", [b"0123456789"])

    part = store.read("a", start, size)

    assert (bytes(part.data), part.start, part.size_bytes, part.tag) == (found, begins, 10, tag)


@pytest.mark.parametrize(("size", "found"), [(1, b"9"), (4, b"6789"), (10, b"0123456789"), (99, b"0123456789")])
def test_the_end_of_an_object_is_read_without_its_size(store, size, found):
    tag = store.create("a", [b"0123456789"])

    part = store.read_end("a", size)

    assert (bytes(part.data), part.start, part.size_bytes, part.tag) == (found, 10 - len(found), 10, tag)


def test_an_object_may_be_empty(store):
    tag = store.create("a", [])

    for part in (store.read("a", 0, 10), store.read_end("a", 10)):
        assert (bytes(part.data), part.start, part.size_bytes, part.tag) == (b"", 0, 0, tag)


def test_objects_are_listed_in_the_order_of_their_whole_names(store):
    names = ["a-b/1", "a.b", "a/0", "a/1/x", "a/10", "a/2", "a0", "ab/c", "b"]
    for name in reversed(names):
        store.create(name, [name.encode()])

    assert list(list_all(store, "")) == [Listed(name, len(name)) for name in sorted(names)]
    assert [each.name for each in list_all(store, "a/")] == ["a/0", "a/1/x", "a/10", "a/2"]
    assert [each.name for each in list_all(store, "a/", "a/1")] == ["a/1/x", "a/10", "a/2"]
    assert [each.name for each in list_all(store, "a/", "a/10")] == ["a/2"]
    assert [each.name for each in list_all(store, "a/", "Z")] == ["a/0", "a/1/x", "a/10", "a/2"]
    assert list(list_all(store, "a/", "b")) == []
    assert list(list_all(store, "none/")) == []


def test_a_listing_continues_across_pages(store, monkeypatch, request):
    page_max = LIST_MAX
    if isinstance(store, DirectoryStore):  # a thousand syncs take long
        page_max = 10
        monkeypatch.setattr(directory_store, "LIST_MAX", page_max)
    elif "directory server" in request.node.name:
        page_max = directory_server.PAGE_MAX
    elif "moto" in request.node.name:
        page_max = s3_server.PAGE_MAX
        monkeypatch.setattr(cloud_store, "LIST_MAX", page_max)
    names = [f"{n:04d}" for n in range(page_max * 2 + 5)]
    for name in names:
        store.upload(f"many/{name}", [b"x"])
    store.upload("mb", [b"x"])

    assert [each.name for each in list_all(store, "many/")] == [f"many/{name}" for name in names]
    delete_all(store, [f"many/{name}" for name in names])
    assert [each.name for each in list_all(store, "")] == ["mb"]


def test_a_deleted_object_is_missing_and_can_be_created_again(store):
    for name in ("a/1", "a/2", "b"):
        store.create(name, [b"x"])

    store.delete(["a/1", "none", "b", "none/none"])
    store.delete([])

    assert [each.name for each in list_all(store, "")] == ["a/2"]
    store.create("b", [b"again"])
    assert content_of(store, "b") == b"again"
    assert DELETE_MAX >= 1000


@pytest.mark.parametrize("size", [0, 5, len(LARGE)])
def test_an_upload_of_any_size_may_be_repeated(store, size):
    content = memoryview(LARGE)[:size]
    for _ in range(2):
        store.upload("a/b", [content[: size // 3], content[size // 3 :]])

    assert content_of(store, "a/b") == content
    assert bytes(store.read("a/b", size // 2, 3).data) == content[size // 2 : size // 2 + 3]


def test_a_copy_outlives_its_source_and_may_be_repeated(store):
    store.create("log/a", [b"content"])
    for _ in range(2):
        store.copy("log/a", "bulk/b")
    store.delete(["log/a"])
    assert bytes(store.read("bulk/b", 0, 100).data) == b"content"
    with pytest.raises(Missing):
        store.copy("log/a", "bulk/c")


def test_a_large_object_is_created_and_replaced_under_the_same_conditions(store):
    tag = store.create("a", [LARGE])
    with pytest.raises((Exists, Unsure)):  # some stores close the connection before they have read so much
        store.create("a", [LARGE, b"other"])
    store.replace("a", [LARGE, b"new"], tag)
    with pytest.raises((Changed, Unsure)):
        store.replace("a", [LARGE, b"newer"], tag)

    assert content_of(store, "a") == LARGE + b"new"


@pytest.mark.parametrize("operation", ["create", "replace"])
def test_of_several_at_once_one_wins(store, operation):
    for number in range(5):
        name = f"{operation}/{number}"
        tag = store.create(name, [b"old"]) if operation == "replace" else ""
        winners = race(store, name, tag)
        assert winners == [content_of(store, name)]


def race(store, name, tag):
    start = threading.Barrier(8)
    winners = []

    def run(content):
        start.wait()
        try:
            if tag:
                store.replace(name, [content], tag)
            else:
                store.create(name, [content])
        except (Exists, Changed):
            return
        winners.append(content)

    threads = [threading.Thread(target=run, args=(b"content of %d" % n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return winners


@pytest.mark.parametrize("name", ["", "a//b", "../a", "a/", "ä"])
def test_an_invalid_name_is_an_error_of_the_caller(store, name):
    for ask in (
        lambda: store.create(name, [b"x"]),
        lambda: store.upload(name, [b"x"]),
        lambda: store.list(f"{name}x"),
    ):
        with pytest.raises(ValueError):
            ask()


def test_the_startup_check_passes_and_leaves_nothing(store):
    check_store(store)

    assert list(list_all(store, "")) == []
