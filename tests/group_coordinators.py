"""The coordinator of a group in a broker, for tests that look at its state."""

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.broker import Broker
from pipeline_broker.state.groups.coordinator import GroupCoordinator


def coordinator_of(broker: Broker, group_id: str) -> GroupCoordinator:
    groups = broker.groups.coordinator_of(group_id)
    assert not isinstance(groups, ErrorCode), groups
    return groups.coordinator
