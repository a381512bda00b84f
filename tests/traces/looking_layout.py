"""A layout of rows that inspects the ring while it packs a row."""

from struct import Struct


class LookingLayout(Struct):
    """Stores in `seen` the number of rows that could be taken from `ring` when each row was packed."""

    ring = None

    def __init__(self, format_):
        super().__init__(format_)
        self.seen = []

    def pack_into(self, *arguments):
        self.seen.append(len(self.ring))
        super().pack_into(*arguments)
