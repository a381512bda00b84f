"""An object store with faults: lost answers, late or doubled requests, refusals, short pages of lists.

It does only what a store could do whose client and proxies repeat requests. Each request draws a fate. A request that
is to arrive late, or once more, waits in `late` until a later one lets it through, and is applied to the store as it is
then.
"""

from functools import partial

from pipeline_broker.objects.store import Changed, Exists, Missing, ObjectStoreError, Unavailable, Unsure

WRITE_FATES = ("done", "refused", "lost before", "lost after", "late", "twice", "conflict", "repeated by the client")
ASK_FATES = ("done", "refused")


class FaultyStore:
    """A store with faults.

    Args:
        store: the sound one.
        draw: `draw(choices)` returns one of the choices: the dice.
    """

    def __init__(self, store, draw):
        self._store = store
        self._draw = draw
        self.late = []
        self.fates = []

    def create(self, name, parts):
        return self._write("create", partial(self._store.create, name, list(parts)), Exists)

    def replace(self, name, parts, tag):
        return self._write("replace", partial(self._store.replace, name, list(parts), tag), Changed)

    def read(self, name, start, size_bytes):
        return self._ask("read", partial(self._store.read, name, start, size_bytes))

    def read_end(self, name, size_bytes):
        return self._ask("read_end", partial(self._store.read_end, name, size_bytes))

    def list(self, prefix, after=""):
        page = self._ask("list", partial(self._store.list, prefix, after))
        return page[: self._draw((len(page), 1))] if page else page

    def delete(self, names):
        if self._next_fate("delete", ("done", "refused", "in part")) == "in part":
            self._store.delete(names[: len(names) // 2])
            raise Unavailable("the answer was lost")
        self._repeat_if_refused("delete", partial(self._store.delete, names))

    def upload(self, name, parts):
        if self._next_fate("upload", ("done", "refused", "lost after")) == "lost after":
            self._store.upload(name, parts)
            raise Unavailable("the answer was lost")
        self._repeat_if_refused("upload", partial(self._store.upload, name, parts))

    def copy(self, source, name):
        if self._next_fate("copy", ("done", "refused", "lost after")) == "lost after":
            self._store.copy(source, name)
            raise Unavailable("the answer was lost")
        self._repeat_if_refused("copy", partial(self._store.copy, source, name))

    def settle(self):
        while self.late:
            self._apply_late()

    def _write(self, operation, send, refusal):
        fate = self._next_fate(operation, WRITE_FATES)
        if fate == "refused":
            raise Unavailable("503: slow down")
        if fate == "conflict":  # nothing was written, but the client reports the answer as that of the condition
            raise refusal("409")
        if fate == "lost before":
            raise Unsure("the connection broke")
        if fate == "late":
            self.late.append(send)
            raise Unsure("no answer in time")
        answer = self._tried(send)
        if fate == "twice":
            self.late.append(send)
        elif fate == "repeated by the client":
            answer = self._tried(send)
        elif fate == "lost after":
            raise Unsure("the connection broke")
        if isinstance(answer, ObjectStoreError):
            raise answer
        return answer

    def _ask(self, operation, send):
        self._next_fate(operation, ASK_FATES)
        return self._repeat_if_refused(operation, send)

    def _repeat_if_refused(self, operation, send):
        if self.fates[-1] == (operation, "refused"):
            raise Unavailable("503: slow down")
        return send()

    def _next_fate(self, operation, fates):
        while self.late and self._draw((False, True)):
            self._apply_late()
        fate = self._draw(fates)
        self.fates.append((operation, fate))
        return fate

    def _apply_late(self):
        self._tried(self.late.pop(self._draw(range(len(self.late)))))

    @staticmethod
    def _tried(send):
        try:
            return send()
        except (Exists, Changed, Missing) as error:
            return error
