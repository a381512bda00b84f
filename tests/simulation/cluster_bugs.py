"""Seeded bugs of brokers that form a cluster; see `seeded_bugs`.

Rules of this file: as there.
"""

from contextlib import contextmanager

from pipeline_broker.apis.transactions.remote_coordinator import RemoteAnswer
from pipeline_broker.broker.cluster_members import ClusterMembers
from pipeline_broker.broker.remote_markers import RemoteMarkers
from pipeline_broker.node.member import Member
from tests.stages.sabotage import replaced


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


def kept_coordinator_epoch():
    """A coordinator that begins anew has the epoch of its former life, which late markers have, too."""
    return replaced(ClusterMembers, "generation", property(lambda _: 1))


def old_verification():
    """A batch is appended by what the coordinator said before a marker ended the transaction."""
    return replaced(RemoteAnswer, "code_now", lambda answer, *_: answer.code)


def same_producer_ids():
    """All brokers give out the same ids of producers."""
    return replaced(ClusterMembers, "first_producer_id", 0)


def all_led():
    """Each broker serves the partitions of all."""
    return replaced(ClusterMembers, "led", lambda _, topic: range(topic.partitions))


@contextmanager
def records_missed():
    """A member that joins again misses what the controller wrote in between."""

    async def connect(member):
        end = await original(member)
        if member._refuse is not None:
            member._position = max(member._position, end)
        return end

    with replaced(Member, "_connect", connect) as original:
        yield
