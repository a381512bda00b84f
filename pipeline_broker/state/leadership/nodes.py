"""Members of a cluster: their states at the controller, and a process that waits for its own record."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["NODE_TRANSITIONS", "Membership", "NodeEvent", "NodeState", "next_node_state"]


class NodeState(enum.Enum):
    """The state of a member at the controller.

    JOINED: it serves. WATCHED: it is silent, and the controller looks for proof of its death. FENCED: its journal
    belongs to a later generation, so it acknowledges nothing. GONE: it is fenced and leads nothing any more.
    """

    JOINED = "joined"
    WATCHED = "watched"
    FENCED = "fenced"
    GONE = "gone"


class NodeEvent(enum.Enum):
    """A fact that the controller learns about a member.

    JOIN: a later generation asks to join. POLL: its process asks for new metadata. SILENCE: no poll for a third of
    the session. LEFT: it gave its journal back. FREE: its journal has no owner any more, by its lease or its lock.
    EMPTIED: it leads nothing any more.
    """

    JOIN = enum.auto()
    POLL = enum.auto()
    SILENCE = enum.auto()
    LEFT = enum.auto()
    FREE = enum.auto()
    EMPTIED = enum.auto()


NODE_TRANSITIONS: Mapping[tuple[NodeState, NodeEvent], NodeState] = {
    (NodeState.JOINED, NodeEvent.SILENCE): NodeState.WATCHED,
    (NodeState.JOINED, NodeEvent.LEFT): NodeState.FENCED,
    (NodeState.WATCHED, NodeEvent.POLL): NodeState.JOINED,
    (NodeState.WATCHED, NodeEvent.LEFT): NodeState.FENCED,
    # Silence alone proves nothing: a process that stands still may continue at any time.
    (NodeState.WATCHED, NodeEvent.FREE): NodeState.FENCED,
    (NodeState.WATCHED, NodeEvent.JOIN): NodeState.JOINED,
    (NodeState.FENCED, NodeEvent.EMPTIED): NodeState.GONE,
    (NodeState.FENCED, NodeEvent.JOIN): NodeState.JOINED,
    (NodeState.GONE, NodeEvent.JOIN): NodeState.JOINED,
}
"""The next state of a member. In all other cases the state stays."""


def next_node_state(state: NodeState, event: NodeEvent) -> NodeState:
    return NODE_TRANSITIONS.get((state, event), state)


class Membership(NamedTuple):
    """A process that has asked to join, and may serve once it has read its own NODE record (C1).

    Attributes:
        generation: number of the process.
        has_joined: whether the record was applied.
    """

    node_id: int
    generation: int
    has_joined: bool = False

    def applied(self, node_id: int, generation: int) -> Membership:
        """Return the membership after a NODE record in the JOINED state; only a record of this process changes it."""
        is_own = (node_id, generation) == (self.node_id, self.generation)
        return self._replace(has_joined=True) if is_own else self
