"""Seeded bugs of brokers on a store of objects; see `seeded_bugs`.

Rules of this file: as there. Those of the log of slots are the mistakes of `tests/objects/fenced_log_mistakes.py`.
"""

from contextlib import contextmanager

from pipeline_broker.log.archive.objects import archive_log
from pipeline_broker.log.errors import JournalFailed
from pipeline_broker.log.object_journal import object_journal
from pipeline_broker.objects import boundary, fencing
from pipeline_broker.objects.fenced_log import Boundary
from pipeline_broker.objects.settled_store import SettledStore
from pipeline_broker.objects.store import Exists, Unsure
from tests.objects import fenced_log_mistakes as mistakes
from tests.simulation import threads
from tests.stages.sabotage import replaced


def out_of_order():
    """A commit is acknowledged when its own object is stored."""
    return replaced(object_journal, "Writer", mistakes.AcknowledgesOutOfOrder)


def stop_for_fence():
    """Who takes over has won where its stop is."""
    return replaced(fencing, "Fencer", mistakes.TakesStopForFence)


def data_for_own():
    """Who takes over takes the answer that something exists for its own fence."""
    return replaced(fencing, "Fencer", mistakes.TakesDataForOwn)


@contextmanager
def existing_for_stored():
    """That something exists counts as the own object."""

    def create(store, name, parts):
        try:
            return original(store, name, parts)
        except Exists:
            return store.read(name, 0, 1).tag

    with replaced(SettledStore, "create", create) as original:
        yield


@contextmanager
def acknowledged_by_the_lease():
    """An owner that has its lease believes that nobody has taken over."""

    def sync(journal, ticket):
        try:
            original(journal, ticket)
        except JournalFailed:
            if not journal.is_owned():
                raise

    with replaced(object_journal.ObjectJournal, "sync", sync) as original:
        yield


@contextmanager
def existing_for_foreign():
    """An object that exists counts as another's, also when the own answer was lost."""

    def create(store, name, parts):
        try:
            return store._store.create(name, parts)
        except Unsure:
            return original(store, name, parts)

    with replaced(SettledStore, "create", create) as original:
        yield


@contextmanager
def deleted_before_the_boundary():
    """What is archived is deleted first, and then the boundary is raised."""

    def raise_boundary(store, log, place):
        boundary.trim(store, log, Boundary(place))
        return original(store, log, place)

    with replaced(object_journal, "raise_boundary", raise_boundary) as original:
        yield


@contextmanager
def archive_read_before_its_fence():
    """Who takes over reads the archive, and only then ends the one that still writes it."""
    early = {}

    def take_over(store, name, node, new_nonce):
        early[threads.running()] = archive_log.read_state(store, node)[0]
        return original(store, name, node, new_nonce)

    def state_in_front_of(store, name, fence):
        return early.pop(threads.running())

    with (
        replaced(archive_log, "take_over", take_over) as original,
        replaced(archive_log, "_state_before", state_in_front_of),
    ):
        yield


@contextmanager
def lost_late_slots():
    """A slot that the store did not confirm in time counts as stored."""

    def create(store, name, parts):
        try:
            return store._store.create(name, parts)
        except Unsure:
            return ""
        except Exception:  # noqa: BLE001 - all else as it should be
            return original(store, name, parts)

    with replaced(SettledStore, "create", create) as original:
        yield
