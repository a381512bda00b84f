"""The `broken` preset answers when it is ready, in whatever order; it exists for tests only, which must fail on it."""

from stages.response_order import ResponseOrder


class BrokenResponseOrder(ResponseOrder):
    """Releases on completion."""

    __slots__ = ()

    def complete(self, slot, result):
        released = super().complete(slot, result)
        if slot in released or slot not in self._slots:
            return released
        self._slots.remove(slot)
        return [slot]
