"""A store of objects at a start: what it does not answer at once is asked again, for a moment."""

import pytest

from pipeline_broker.log.archive.archive_place import ArchivePlace
from pipeline_broker.node.archive_store import ArchiveStore
from pipeline_broker.node.options import StartBlockedError
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import Unavailable

PLACE = ArchivePlace("s3://bucket/prefix", 1, "objects")


class UncertainStore:
    """Refuses so many tries of each writing."""

    def __init__(self, refusals):
        self._store = MemoryStore()
        self._refusals = refusals
        self._tries = {}

    def __getattr__(self, name):
        method = getattr(self._store, name)
        if name not in {"create", "replace", "upload", "delete"}:
            return method

        def write(what, *more):
            key = name, str(what)
            self._tries[key] = self._tries.get(key, 0) + 1
            if self._tries[key] <= self._refusals:
                raise Unavailable("503: slow down")
            return method(what, *more)

        return write


def test_an_archive_is_opened_although_each_writing_is_refused_once():
    archive = ArchiveStore(PLACE, UncertainStore(1)).open()
    assert archive.lsn == 0


def test_an_archive_is_not_opened_where_writings_are_refused_again_and_again():
    with pytest.raises(StartBlockedError, match="slow down"):
        ArchiveStore(PLACE, UncertainStore(100)).open()
