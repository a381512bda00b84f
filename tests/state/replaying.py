"""Replays records as a start does: read first, then taken over."""

from pipeline_broker.state.groups.records import read_group_record
from pipeline_broker.state.share_coordinator.records import read_share_record
from pipeline_broker.state.transactions.records import read_transaction


def replay_group(coordinator, record):
    """Let a group coordinator take over one record."""
    change = read_group_record(record.key, record.value)
    if change is not None:
        coordinator.replay(change)


def replay_transaction(coordinator, record):
    """Let a transaction coordinator take over one record."""
    change = read_transaction(record.key, record.value)
    if change is not None:
        coordinator.replay(change)


def replay_share(states, record, offset):
    """Let share states take over one record, which is at an offset of the log."""
    change = read_share_record(record.key, record.value)
    if change is not None:
        states.replay(change, offset)
