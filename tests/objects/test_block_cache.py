"""Reads through the cache return the content of the objects, at one GET per block."""

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.objects import block_cache
from pipeline_broker.objects.block_cache import READ_AHEAD_BLOCKS, BlockCache
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import Missing, Unavailable
from tests.crashes.lengths import examples

BLOCK = 16


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Counting(MemoryStore):
    """Counts its GETs; holds them while `gate` is closed."""

    def __init__(self):
        super().__init__()
        self.reads = []
        self.gate = threading.Event()
        self.gate.set()
        self.error = None

    def read(self, name, start, size_bytes):
        self.reads.append((name, start // BLOCK))
        assert self.gate.wait(10)
        if self.error is not None:
            raise self.error
        return super().read(name, start, size_bytes)


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr(block_cache, "BLOCK_BYTES", BLOCK)
    store = Counting()
    for name in ("a", "b"):
        store.create(name, [bytes(range(100)), name.encode()])
    return store


@pytest.fixture
def cache(store):
    cache = BlockCache(store, bytes_max=5 * BLOCK)
    yield cache
    store.gate.set()
    cache.close()


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 110), st.integers(0, 110), st.booleans()), max_size=20))
def test_any_reads_give_what_the_object_holds(reads):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_cache, "BLOCK_BYTES", BLOCK)
        store = MemoryStore()
        contents = {name: bytes(range(100)) + name.encode() for name in "ab"}
        for name, content in contents.items():
            store.create(name, [content])
        cache = BlockCache(store, bytes_max=5 * BLOCK)
        for name, start, size, is_ahead in reads:
            if is_ahead:
                cache.read_ahead(name, start, size)
            found = cache.read_cached(name, start, size)
            expected = contents[name][start : start + size]
            assert found is None or bytes(found) == expected
            assert bytes(cache.read(name, start, size)) == expected
            assert cache.size_bytes <= 5 * BLOCK
        cache.close()


def test_cached_blocks_are_read_again_without_a_request(cache, store):
    assert cache.read_cached("a", 3, 40) is None
    assert bytes(cache.read("a", 3, 40)) == bytes(range(3, 43))
    assert sorted(store.reads) == [("a", 0), ("a", 1), ("a", 2)]
    assert bytes(cache.read("a", 0, 48)) == bytes(range(48))
    assert bytes(cache.read_cached("a", 20, 4)) == bytes(range(20, 24))
    assert len(store.reads) == 3


def test_the_blocks_used_last_stay(cache, store):
    for number in (0, 1, 2, 3, 4, 0, 5):
        cache.read("a", number * BLOCK, 1)

    assert cache.size_bytes == 5 * BLOCK
    assert [cache.read_cached("a", number * BLOCK, 1) is not None for number in range(6)] == [
        True,
        False,
        True,
        True,
        True,
        True,
    ]


def test_all_readers_that_wait_for_a_block_share_one_request(cache, store):
    store.gate.clear()
    found = []
    threads = [threading.Thread(target=lambda: found.append(bytes(cache.read("a", 20, 4)))) for _ in range(5)]
    for thread in threads:
        thread.start()
    wait_until(lambda: store.reads)
    store.gate.set()
    for thread in threads:
        thread.join()

    assert found == [bytes(range(20, 24))] * 5
    assert store.reads == [("a", 1)]


def test_read_ahead_gets_a_limited_number_of_blocks(cache, store):
    cache.read_ahead("a", 0, 101)
    wait_until(lambda: cache.read_cached("a", 0, READ_AHEAD_BLOCKS * BLOCK) is not None)

    assert sorted(store.reads) == [("a", number) for number in range(READ_AHEAD_BLOCKS)]


def test_a_reader_does_not_wait_for_a_thread_that_is_busy_elsewhere(cache, store, monkeypatch):
    """All threads of the cache are held. The reader's block is still in their queue."""
    store.gate.clear()
    cache.read_ahead("a", 0, 4 * BLOCK)
    wait_until(lambda: len(store.reads) == READ_AHEAD_BLOCKS)
    cache.read_ahead("b", 0, 1)
    found = []
    reader = threading.Thread(target=lambda: found.append(bytes(cache.read("b", 0, 2))))
    reader.start()
    wait_until(lambda: ("b", 0) in store.reads)
    store.gate.set()
    reader.join()

    assert found == [b"\0\1"]
    assert store.reads.count(("b", 0)) == 1


def test_hints_are_dropped_when_there_are_many(cache, store, monkeypatch):
    monkeypatch.setattr(block_cache, "GETS_MAX", 3)
    store.gate.clear()
    for name in ("a", "b"):
        cache.read_ahead(name, 0, 4 * BLOCK)

    assert len(cache._pending) == 3
    store.gate.set()
    assert bytes(cache.read("b", 60, 4)) == bytes(range(60, 64))


def test_a_failure_reaches_the_waiting_readers_and_the_next_one_tries_again(cache, store):
    store.error = Unavailable("down")
    cache.read_ahead("a", 0, 1)
    with pytest.raises(Unavailable):
        cache.read("a", 0, 20)
    wait_until(lambda: not cache._pending)
    store.error = None
    assert bytes(cache.read("a", 0, 20)) == bytes(range(20))


def test_a_missing_object_is_missing_and_a_forgotten_one_not_served(cache, store):
    with pytest.raises(Missing):
        cache.read("none", 0, 1)
    cache.read("a", 0, 20)
    cache.read("b", 0, 1)
    cache.forget("a")
    assert cache.read_cached("a", 0, 1) is None
    assert cache.read_cached("b", 0, 1) is not None
    assert cache.size_bytes == BLOCK


def test_a_closed_cache_still_reads(cache, store):
    cache.close()
    cache.read_ahead("a", 0, 40)
    assert bytes(cache.read("a", 0, 40)) == bytes(range(40))


@pytest.mark.parametrize("size", [0, 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_a_new_object_is_cached_up_to_the_memory_limit(size, monkeypatch):
    monkeypatch.setattr(block_cache, "BLOCK_BYTES", BLOCK)
    content = bytes(range(251)) * (size // 251 + 1)
    content = content[:size]
    cache = BlockCache(MemoryStore(), 2 * BLOCK)
    cache.fill("a", content)
    cache.fill("a", content)
    kept = min(size, 2 * BLOCK)
    assert cache.size_bytes <= 2 * BLOCK
    if size and size <= 2 * BLOCK:
        assert cache.size_bytes == kept
        assert bytes(cache.read_cached("a", 0, size)) == content
    elif size:
        assert cache.read_cached("a", 0, 1) is None, "the oldest block gave way"
        assert bytes(cache.read_cached("a", BLOCK, kept)) == content[BLOCK:]
    cache.forget("a")
    assert cache.size_bytes == 0
    cache.close()
