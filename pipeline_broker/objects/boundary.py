"""The boundary of a log in its store: read, raised, and what lies in front of it deleted.

Rules of this file: the store is settled (`settled_store`), so a call returns when what it did is known. The boundary is
durable before anything is deleted on its account. Anybody may call at any time, an owner that was fenced too: a
boundary never goes back, and what one of them has freed no other one needs.
"""

from pipeline_broker.objects.fenced_log import Boundary, Place, boundary_name, place_of, slot_name
from pipeline_broker.objects.slot import FENCE_SIZE
from pipeline_broker.objects.store import Changed, Exists, Missing, ObjectStore, delete_all, list_all

__all__ = ["raise_boundary", "read_boundary", "trim"]

BOUNDARY_BYTES_MAX = 64
START = Place(0, 0)


def read_boundary(store: ObjectStore, log: str) -> Boundary:
    """Where a log begins; raises BrokenLogError where its object is damaged."""
    return _read(store, log)[0]


def raise_boundary(store: ObjectStore, log: str, place: Place) -> Boundary:
    """Have a log begin at this place, unless it does so at a later one; returns what holds then.

    Args:
        place: all data in front of it is confirmed, and needed by nobody.
    """
    while True:  # as often as another one raises it meanwhile
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
    """Delete what a stored boundary frees; returns how many objects that were.

    What was written behind a fence, by an owner that did not know of it yet, goes too.

    Args:
        freed_to: in front of it nothing needs to be looked for, because it was deleted before: fences alone are there.
    """
    freed = []
    before = slot_name(log, freed_to)[:-1]  # see `list_places`
    for name, size_bytes in list_all(store, f"{log}/", before):
        place = place_of(log, name)
        if place is None:
            continue  # a stranger's, or the lease
        if place >= boundary.place:
            break  # they are in order
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
