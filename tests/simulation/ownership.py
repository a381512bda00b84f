"""The owners of partitions in a group of the consumer protocol (KIP-848), as its members have acknowledged them.

Checks: A partition is assigned only after its owner revoked it, left, or was silent for its session. Epochs never
fall.

Rules of this file: it does no I/O. A member owns what it was told from the moment it hears of it, to the moment it
sends a heartbeat without it, leaves, or is told that it is out; and never longer than its session lasts from the last
heartbeat that was answered, counted from when that was sent, because the broker may have let it go by then.
"""

import attrs

ROUNDING_SECONDS = 0.002
"""The broker's clock counts whole milliseconds."""


@attrs.define(eq=False)
class Holder:
    """One member, as it knows itself.

    Attributes:
        epoch: 0 while it is not in the group.
        assigned: (topic id, partition) of what it was told last.
        held: what it owns: also what was taken from it, until it has said that it gives it back.
        until: when it may have been let go.
    """

    name: str
    epoch: int = 0
    assigned: frozenset = frozenset()
    held: frozenset = frozenset()
    until: float = 0.0


class Ownership:
    """One group.

    Attributes:
        epoch: the highest that any member was told.
    """

    def __init__(self, session_seconds):
        self.epoch = 0
        self._session_seconds = session_seconds - ROUNDING_SECONDS
        self._holders = []

    def member(self, name):
        self._holders.append(Holder(name))
        return self._holders[-1]

    @staticmethod
    def says(holder):
        """A member sends a heartbeat with what it was told last: it gives back the rest."""
        holder.held = holder.assigned

    def told(self, holder, epoch, assigned, *, sent_at, now, not_before):
        """A heartbeat was answered; what is wrong with that, as texts.

        Args:
            holder: whose.
            epoch: its epoch from now on.
            assigned: what it owns from now on; None for no change.
            sent_at, now: when it was sent and answered.
            not_before: `epoch` of the group when it was sent, if the member joined with it; else the member's own.
        """
        if epoch < max(not_before, holder.epoch):
            yield f"the epoch of {holder.name} became {epoch}, and was {max(not_before, holder.epoch)}"
        holder.epoch, holder.until = epoch, sent_at + self._session_seconds
        self.epoch = max(self.epoch, epoch)
        if assigned is None:
            return
        holder.assigned = frozenset(assigned)
        holder.held |= holder.assigned
        for other in self._holders:
            both = holder.assigned & other.held if other is not holder and now < other.until else ()
            if both and now < holder.until:
                places = sorted(partition for _, partition in both)
                yield f"partitions {places} belong to {holder.name} and to {other.name}"

    def is_out(self, holder):
        """A member has left, or was told that it is out."""
        holder.epoch, holder.assigned, holder.held, holder.until = 0, frozenset(), frozenset(), 0.0
