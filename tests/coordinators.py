"""The coordinators of a group and of a transactional id in a broker, for tests that look at their state."""

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.broker import Broker
from pipeline_broker.state.groups.coordinator import GroupCoordinator
from pipeline_broker.state.transactions.coordinator import TransactionCoordinator


def coordinator_of(broker: Broker, group_id: str) -> GroupCoordinator:
    groups = broker.groups.coordinator_of(group_id)
    assert not isinstance(groups, ErrorCode), groups
    return groups.coordinator


def transaction_coordinator_of(broker: Broker, transactional_id: str) -> TransactionCoordinator:
    transactions = broker.transactions.coordinator_of(transactional_id)
    assert not isinstance(transactions, ErrorCode), transactions
    return transactions.coordinator
