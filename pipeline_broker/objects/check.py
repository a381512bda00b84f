"""Whether a store keeps what all else rests on, asked before anything is written to it.

Rules of this file: a store that accepts a condition and ignores it looks well until two brokers lose each other's
records, so nothing is believed that was not seen: each promise of `store.ObjectStore` about conditions, about reading
and listing after a writing is tried once, under names of its own that are deleted again. The whole takes at most
`SECONDS_MAX`, whatever the store does: requests that hang go on in a thread that ends with the process.
"""

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
TRIES_SECONDS_MAX = 5.0
"""How long a request that the store refuses is tried again."""
RACERS = 8
PREFIX = "check"


def check_store(store: ObjectStore, seconds_max: float = SECONDS_MAX) -> None:
    """Return when the store has kept every promise, from a thread that may wait so long.

    Raises:
        StoreRefused: it broke one, or did not answer in time; the text is one line.
    """
    verdict: queue.SimpleQueue[str | None] = queue.SimpleQueue()
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
    """A promise that was not kept."""


def _probe(store: ObjectStore) -> str | None:
    """What is wrong with a store, None if nothing is."""
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
        return "it does not do what it is asked for: " + " ".join(str(error).split())
    finally:
        with contextlib.suppress(ObjectStoreError):  # a name that stays is never used again
            probe.delete()
    return None


class _Probe:
    """The names and contents of one check."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._folder = f"{PREFIX}/{os.urandom(8).hex()}/"
        self._names: list[str] = []
        self._tag = ""

    def create(self) -> None:
        """An object is created once, and read as it was written."""
        name, content = self._name("created"), _content()
        self._tag = self._store.create(name, [content])
        if _is_done(lambda: self._store.create(name, [_content()]), Exists):
            raise _Broken("it creates an object over another one: it ignores If-None-Match")
        self._expect(name, content)

    def race(self) -> None:
        """Of several that create the same object at once, one does."""
        name = self._name("raced")
        contents = [_content() for _ in range(RACERS)]
        winners: queue.SimpleQueue[bytes | ObjectStoreError] = queue.SimpleQueue()

        def run(content: bytes) -> None:
            try:
                if _is_done(lambda: self._store.create(name, [content]), Exists):
                    winners.put(content)
            except ObjectStoreError as error:
                winners.put(error)

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
            raise _Broken(f"{len(won)} of {RACERS} that created an object at once were told that they did")
        self._expect(name, won[0])

    def replace(self) -> None:
        """An object is replaced where it is the one that was read, and only there."""
        name, content = self._names[0], _content()
        stale, self._tag = self._tag, self._store.replace(name, [content], self._tag)
        if _is_done(lambda: self._store.replace(name, [_content()], stale), Changed):
            raise _Broken("it replaces an object that has changed: it ignores If-Match")
        if _is_done(lambda: self._store.replace(self._name("absent"), [_content()], stale), Changed):
            raise _Broken("it replaces an object that is not there: it ignores If-Match")
        self._expect(name, content)

    def list(self) -> None:
        """What was written is listed at once, in order, from any name on."""
        listed = [each.name for each in list_all(self._store, self._folder)]
        written = sorted(name for name in self._names if not name.endswith("absent"))
        if listed != written:
            raise _Broken(f"it lists {len(listed)} objects where {len(written)} were written, or in another order")
        if [each.name for each in list_all(self._store, self._folder, written[0])] != written[1:]:
            raise _Broken("it does not list from a name on")

    def upload(self) -> None:
        """An object without a condition is there as well, and its end is read; what is deleted is gone."""
        name, content = self._name("uploaded"), _content()
        self._store.upload(name, [content])
        end = self._store.read_end(name, HEAD_BYTES // 2)
        if (bytes(end.data), end.size_bytes) != (content[-HEAD_BYTES // 2 :], len(content)):
            raise _Broken("it reads another end of an object than was written")
        self._store.delete([name])
        if _is_done(lambda: self._store.read(name, 0, 1), Missing):
            raise _Broken("it shows an object that was deleted")

    def delete(self) -> None:
        """Leave nothing."""
        self._store.delete(self._names)

    def _name(self, last: str) -> str:
        name = self._folder + last
        self._names.append(name)
        return name

    def _expect(self, name: str, content: bytes) -> None:
        if bytes(self._store.read(name, 0, len(content) + 1).data) != content:
            raise _Broken("it reads another content than was written")


def _content() -> bytes:
    return os.urandom(2 * HEAD_BYTES)


def _is_done(ask: Callable[[], object], refusal: type[ObjectStoreError]) -> bool:
    """Whether what was asked for was done, where it should have been refused."""
    try:
        ask()
    except refusal:
        return False
    return True
