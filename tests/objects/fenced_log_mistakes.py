"""Mistakes in a fenced log: the values of the product, each with one rule of the protocol left out."""

from collections.abc import Mapping

from pipeline_broker.objects.fenced_log import Boundary, Fencer, Found, Place, Step, Writer


class AcknowledgesOutOfOrder(Writer):
    """Counts a stored slot as confirmed, whatever is missing before it."""

    def store(self, slot: int) -> Writer:
        return super().store(slot)._replace(confirmed=max(slot + 1, self.confirmed))


class ReadsBoundaryOnce(Fencer):
    """Has won as soon as its fence is created."""

    def find(self, found: Found) -> Fencer:
        after = super().find(found)
        return after._replace(step=Step.WON) if after.step is Step.READ_AGAIN else after


class ComparesBoundaryWithFence(Fencer):
    """Has lost only if the boundary is after its fence."""

    def read(self, boundary: Boundary) -> Fencer:
        after = super().read(boundary)
        if self.step is Step.READ_AGAIN:
            return after._replace(step=Step.LOST if boundary.place > self.place else Step.WON)
        return after


class TakesStopForFence(Fencer):
    """Has won with its stop, without the walk."""

    def find(self, found: Found) -> Fencer:
        if self.step is Step.STOP and found is Found.OWN:
            return self._replace(step=Step.READ_AGAIN, place=self.wanted)
        return super().find(found)


class ListsBeyondHoles(Fencer):
    """Starts after the last object of a listing instead of at the first empty place."""

    def see(self, listing: Mapping[Place, bool]) -> Fencer:
        after = super().see(listing)
        there = [place for place in listing if place.generation == after.place.generation and not listing[place]]
        last = max(there, default=after.place)
        return after._replace(place=max(after.place, Place(last.generation, last.slot + 1))) if there else after


class TakesDataForOwn(Fencer):
    """Takes an existing object for its own fence."""

    def find(self, found: Found) -> Fencer:
        return super().find(Found.OWN if found is Found.DATA else found)


class TakesFenceForOwn(Fencer):
    """Takes another fencer's fence for its own."""

    def find(self, found: Found) -> Fencer:
        return super().find(Found.OWN if found is Found.FENCE else found)


class FreesFences(Boundary):
    """Frees fences like data."""

    def frees(self, place: Place, *, is_fence: bool) -> bool:
        return super().frees(place, is_fence=False)


class FreesDataAfterBoundary(Boundary):
    """Frees data after the boundary."""

    def frees(self, place: Place, *, is_fence: bool) -> bool:
        return place <= self.place and not is_fence
