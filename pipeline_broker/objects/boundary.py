"""The boundary of a fenced log: reading it, raising it, and deleting the slots before it.

Any broker may call these functions at any time, a fenced owner too. A boundary never decreases, and no broker needs a
slot that another one has freed. Stores are settled (`settled_store`).
"""

from pipeline_broker.objects.fenced_log import Boundary, Place, boundary_name, place_of, slot_name
from pipeline_broker.objects.slot import FENCE_SIZE
from pipeline_broker.objects.store import Changed, Exists, Missing, ObjectStore, delete_all, list_all

__all__ = ["raise_boundary", "read_boundary", "trim"]

BOUNDARY_BYTES_MAX = 64
START = Place(0, 0)


def read_boundary(store: ObjectStore, log: str) -> Boundary:
    """Return the boundary of a log; the start of the log if no boundary is stored.

    Raises:
        BrokenLogError: the boundary object is damaged.
        ObjectStoreError: the store does not answer.
    """
    return _read(store, log)[0]


def raise_boundary(store: ObjectStore, log: str, place: Place) -> Boundary:
    """Raise the boundary of a log to `place` and return the stored boundary; never lower it.

    Args:
        place: all data before it is confirmed and no longer needed.

    Raises:
        BrokenLogError: the boundary object is damaged.
        ObjectStoreError: the store does not answer.
    """
    while True:  # until no other broker raises it between the read and the write
        boundary, tag = _read(store, log)
        raised = boundary.raised_to(place)
        try:
            if raised != boundary and tag is None:
                store.create(boundary_name(log), [raised.encode()])
            elif raised != boundary and tag is not None:
                store.replace(boundary_name(log), [raised.encode()], tag)
        except (Exists, Changed):
            continue
        return raised


def trim(store: ObjectStore, log: str, boundary: Boundary, freed_to: Place = START) -> int:
    """Delete the slots that a stored boundary frees, and return the number of deleted objects.

    Slots that a fenced owner wrote after the fence are deleted, too.

    Args:
        boundary: the stored boundary. If it were not durable, a takeover after a crash would miss the deleted slots.
        freed_to: before this place only fences are left, so the listing starts here.

    Raises:
        ObjectStoreError: the store does not answer; some slots may be deleted.
    """
    freed = []
    before = slot_name(log, freed_to)[:-1]  # see `list_places`
    for name, size_bytes in list_all(store, f"{log}/", before):
        place = place_of(log, name)
        if place is None:
            continue  # the lease, or an object of another program
        if place >= boundary.place:
            break  # names are listed in the order of places
        if boundary.frees(place, is_fence=size_bytes == FENCE_SIZE):
            freed.append(name)
    delete_all(store, freed)
    return len(freed)


def _read(store: ObjectStore, log: str) -> tuple[Boundary, str | None]:
    try:
        part = store.read(boundary_name(log), 0, BOUNDARY_BYTES_MAX)
    except Missing:
        return Boundary(), None
    return Boundary.decode(part.data), part.tag
