"""Replay of single records, like at a startup: decode, then apply."""

from pipeline_broker.state.groups.records import read_group_record
from pipeline_broker.state.share_coordinator.records import read_share_record
from pipeline_broker.state.transactions.records import read_transaction


def replay_group(coordinator, record):
    change = read_group_record(record.key, record.value)
    if change is not None:
        coordinator.replay(change)


def replay_transaction(coordinator, record):
    change = read_transaction(record.key, record.value)
    if change is not None:
        coordinator.replay(change)


def replay_share(states, record, offset):
    change = read_share_record(record.key, record.value)
    if change is not None:
        states.replay(change, offset)
