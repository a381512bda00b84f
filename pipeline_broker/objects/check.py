"""The startup check of an object store: conditional writes, and reads and lists that see every write."""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable

from pipeline_broker.objects.opening import StoreRefused
from pipeline_broker.objects.settled_store import HEAD_BYTES, SettledStore
from pipeline_broker.objects.store import Changed, Exists, Missing, ObjectStore, ObjectStoreError, list_all

__all__ = ["check_store"]

SECONDS_MAX = 8.0
TRIES_SECONDS_MAX = 5.0  # time for which refused requests are repeated

assert TRIES_SECONDS_MAX < SECONDS_MAX  # else the error of the last try would never be reported
RACERS = 8
PREFIX = "check"


def check_store(store: ObjectStore, seconds_max: float = SECONDS_MAX) -> None:
    """Try each guarantee of `store.ObjectStore` once, and return if the store kept all of them.

    A store that accepts a condition and ignores it works until two brokers overwrite each other's records. So the check
    believes nothing that it has not seen. It writes objects below `check/` and deletes them. It blocks for up to
    `seconds_max` seconds, even if requests hang.

    Raises:
        StoreRefused: the store broke a guarantee, or did not answer in time; the text is one line.
    """
    verdict: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    # Requests cannot be cancelled. A hanging one stays in this daemon thread until the process ends.
    prober = threading.Thread(target=lambda: verdict.put(_probe(store)), name="check of the store", daemon=True)
    prober.start()
    try:
        reason = verdict.get(timeout=seconds_max)
    except queue.Empty:
        raise StoreRefused(f"it gave no answer within {seconds_max:g} s") from None
    prober.join()
    if reason is not None:
        raise StoreRefused(reason)


class _Broken(Exception):
    pass


def _probe(store: ObjectStore) -> str | None:
    give_up_at = time.monotonic() + TRIES_SECONDS_MAX

    def pause(seconds: float, error: ObjectStoreError) -> None:
        if time.monotonic() + seconds > give_up_at:
            raise error
        time.sleep(seconds)

    probe = _Probe(SettledStore(store, pause))
    try:
        for step in (probe.create, probe.race, probe.replace, probe.list, probe.upload):
            step()
    except _Broken as broken:
        return str(broken)
    except ObjectStoreError as error:
        return "it refused a request of the startup check: " + " ".join(str(error).split())
    finally:
        with contextlib.suppress(ObjectStoreError):  # leftovers do no harm: every check has names of its own
            probe.delete()
    return None


class _Probe:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._folder = f"{PREFIX}/{os.urandom(8).hex()}/"
        self._names: list[str] = []
        self._tag = ""

    def create(self) -> None:
        name, content = self._name("created"), _content()
        self._tag = self._store.create(name, [content])
        if _succeeds(lambda: self._store.create(name, [_content()]), Exists):
            raise _Broken("it overwrites an existing object: it ignores If-None-Match")
        self._expect(name, content)

    def race(self) -> None:
        name = self._name("raced")
        contents = [_content() for _ in range(RACERS)]
        winners: queue.SimpleQueue[bytes | ObjectStoreError] = queue.SimpleQueue()

        def run(content: bytes) -> None:
            try:
                if _succeeds(lambda: self._store.create(name, [content]), Exists):
                    winners.put(content)
            except ObjectStoreError as error:
                winners.put(error)

        # Concurrent requests find a store that checks the condition first and writes later, which the sequential test
        # misses.
        threads = [threading.Thread(target=run, args=(content,), daemon=True) for content in contents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        won: list[bytes] = []
        for _ in range(winners.qsize()):
            winner = winners.get()
            if isinstance(winner, ObjectStoreError):
                raise winner
            won.append(winner)
        if len(won) != 1:
            raise _Broken(f"it accepted {len(won)} of {RACERS} concurrent requests to create one object")
        self._expect(name, won[0])

    def replace(self) -> None:
        name, content = self._names[0], _content()
        stale, self._tag = self._tag, self._store.replace(name, [content], self._tag)
        if _succeeds(lambda: self._store.replace(name, [_content()], stale), Changed):
            raise _Broken("it replaces an object that has changed: it ignores If-Match")
        if _succeeds(lambda: self._store.replace(self._name("absent"), [_content()], stale), Changed):
            raise _Broken("it replaces a missing object: it ignores If-Match")
        self._expect(name, content)

    def list(self) -> None:
        listed = [each.name for each in list_all(self._store, self._folder)]
        written = sorted(name for name in self._names if not name.endswith("absent"))
        if listed != written:
            raise _Broken(f"it lists {len(listed)} of {len(written)} written objects, or lists them in another order")
        if [each.name for each in list_all(self._store, self._folder, written[0])] != written[1:]:
            raise _Broken("it cannot list the objects after a given name")

    def upload(self) -> None:
        name, content = self._name("uploaded"), _content()
        self._store.upload(name, [content])
        end = self._store.read_end(name, HEAD_BYTES // 2)
        if (bytes(end.data), end.size_bytes) != (content[-HEAD_BYTES // 2 :], len(content)):
            raise _Broken("it returns an end of an object that differs from the written one")
        self._store.copy(name, copied := self._name("copied"))
        self._store.delete([name])
        self._expect(copied, content)
        if _succeeds(lambda: self._store.read(name, 0, 1), Missing):
            raise _Broken("it returns a deleted object")

    def delete(self) -> None:
        self._store.delete(self._names)

    def _name(self, last: str) -> str:
        name = self._folder + last
        self._names.append(name)
        return name

    def _expect(self, name: str, content: bytes) -> None:
        if bytes(self._store.read(name, 0, len(content) + 1).data) != content:
            raise _Broken("it returns content that differs from the written content")


def _content() -> bytes:
    return os.urandom(2 * HEAD_BYTES)


def _succeeds(send: Callable[[], object], refusal: type[ObjectStoreError]) -> bool:
    try:
        send()
    except refusal:
        return False
    return True
