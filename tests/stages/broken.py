"""The `broken` preset answers requests in the order of completion; tests must fail on it."""

from stages.response_order import ResponseOrder


class BrokenResponseOrder(ResponseOrder):
    __slots__ = ()

    def complete(self, slot, result):
        released = super().complete(slot, result)
        if slot in released or slot not in self._slots:
            return released
        self._slots.remove(slot)
        return [slot]
