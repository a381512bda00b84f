"""Seeded bugs of brokers that form a cluster; see `seeded_bugs`.

Rules of this file: as there.
"""

from contextlib import contextmanager

import trio

from pipeline_broker.broker.cluster_members import ClusterMembers
from pipeline_broker.broker.remote_markers import RemoteMarkers
from pipeline_broker.log.producers.producer_state import ProducerStates
from pipeline_broker.node.member import Member
from tests.stages.sabotage import replaced

LATEST_EPOCH = 1 << 30
LATE_SECONDS = 0.2


def foreign_markers_skipped():
    """The partitions of a transaction that other brokers lead get no marker."""
    return replaced(RemoteMarkers, "is_here", lambda *_: True)


@contextmanager
def complete_before_markers():
    """A transaction is over once its markers are sent, not once they are durable."""

    def send(remote, markers, now_ms):
        original(remote, [(marker, lambda: None) for marker, _ in markers], now_ms)
        for _, done in markers:
            done()

    with replaced(RemoteMarkers, "send", send) as original:
        yield


def markers_sent_once():
    """A marker that was refused or lost is not sent again."""
    return replaced(RemoteMarkers, "_wait", lambda *_: None)


@contextmanager
def earlier_coordinators_obeyed():
    """A partition takes the marker of a process that a later one of the same coordinator has replaced."""

    def check(states, producer_id, epoch, _, version):
        original(states, producer_id, epoch, LATEST_EPOCH, version)

    with replaced(ProducerStates, "check_marker", check) as original:
        yield


@contextmanager
def controller_joined_late():
    """Markers that a controller sends at its startup carry the number of its previous process (C1)."""

    def request(remote, some):
        asked = original(remote, some)
        if not remote._members.follows and remote._cluster._nursery is None:
            for marker in asked.markers:
                marker.coordinator_epoch -= 1
        return asked

    with replaced(RemoteMarkers, "_request", request) as original:
        yield


@contextmanager
def served_before_joined():
    """A member serves before it has applied the record of its own process (C1)."""

    async def join(member, listeners):
        *found, member.own = await original_join(member, listeners)
        return found

    async def receive(member):
        own, member.own = getattr(member, "own", None), None
        if own is None:
            return await original_receive(member)
        await trio.sleep(LATE_SECONDS)
        return [own]

    with replaced(Member, "join", join) as original_join, replaced(Member, "_receive", receive) as original_receive:
        yield


def same_producer_ids():
    """All brokers give out the same ids of producers."""
    return replaced(ClusterMembers, "first_producer_id", 0)


def all_led():
    """Each broker serves the partitions of all."""
    return replaced(ClusterMembers, "led", lambda _, topic: range(topic.partitions))


@contextmanager
def records_missed():
    """A member that joins again misses the first records that the controller sends it."""

    async def connect(member):
        end = await original_connect(member)
        member.misses = member._refuse is not None
        return end

    async def receive(member):
        records = await original_receive(member)
        is_missed, member.misses = member.misses, False
        return () if is_missed else records

    with (
        replaced(Member, "_connect", connect) as original_connect,
        replaced(Member, "_receive", receive) as original_receive,
    ):
        yield


def never_joined_again():
    """A member does not notice that the controller takes it for another process, which has ended."""
    return replaced(ClusterMembers, "is_replaced", lambda *_: False)
