"""The right that each address of the dashboard needs, as for a request of Kafka that returns the same.

What no request of Kafka returns needs Describe on the cluster. Lists omit what the principal may not describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pipeline_broker.dashboard.routes import Route
from pipeline_broker.schema_registry.records import SCHEMAS_TOPIC
from pipeline_broker.security.acl import CLUSTER_NAME, AclOperation, ResourceType
from pipeline_broker.web.messages import HttpRequest

__all__ = ["NEEDED", "Asker", "Right", "needed"]

Right = tuple[AclOperation, ResourceType]

DESCRIBE_CLUSTER = AclOperation.DESCRIBE, ResourceType.CLUSTER
DESCRIBE_TOPIC = AclOperation.DESCRIBE, ResourceType.TOPIC
READ_TOPIC = AclOperation.READ, ResourceType.TOPIC
DESCRIBE_GROUP = AclOperation.DESCRIBE, ResourceType.GROUP

NEEDED: Mapping[str, Right | None] = {
    # The page of an address, and the facts that each page shows.
    "page": None,
    "static": None,
    "broker": None,
    "brokers": None,  # like DescribeCluster
    "acl_choices": None,
    "fault_choices": None,
    # These filter their rows.
    "topics": None,
    "groups": None,
    # The handlers of these authorize them.
    "question": None,
    "refusals": None,
    "change": None,
    "change_faults": None,
    "change_schemas": None,
    "reset_offsets": None,
    "topic": DESCRIBE_TOPIC,
    "groups_of_topic": DESCRIBE_TOPIC,
    "records": READ_TOPIC,
    "tail_events": READ_TOPIC,
    "schemas": READ_TOPIC,  # of the topic with the schemas
    "schema_versions": READ_TOPIC,
    "group": DESCRIBE_GROUP,
    "lags": DESCRIBE_GROUP,  # without a group the view checks
    "configuration": (AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
    "connections": DESCRIBE_CLUSTER,
    "store": DESCRIBE_CLUSTER,
    "faults": DESCRIBE_CLUSTER,
    "pipeline_events": DESCRIBE_CLUSTER,
    "request_events": DESCRIBE_CLUSTER,
    "beside_events": DESCRIBE_CLUSTER,
}
"""By the name of a route. None: no right, or one that depends on the rows or on the change."""


class Asker(Protocol):
    @property
    def name(self) -> str:
        """The principal; empty if it has all rights."""

    @property
    def rights(self) -> Any:
        """A value that is equal for askers with the same rights."""

    @property
    def missing(self) -> str:
        """The first right that the principal lacked, as a sentence; empty before the first denial."""

    async def ask(self, message: Any, now_ms: int) -> Any:
        """Handle a request and return its response, once its changes are durable.

        Raises:
            ConnectionError: the request would have closed a client's connection.
        """

    def may(
        self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME, *, is_logged: bool = True
    ) -> bool: ...


def needed(route: Route, request: HttpRequest) -> tuple[AclOperation, ResourceType, str] | None:
    """Return operation, type and name of the resource that a request needs; None for no right."""
    right = NEEDED[route.name]
    if right is None:
        return None
    operation, kind = right
    group = request.query.get("group")
    if route.name == "lags" and group is None:
        return None
    if kind is ResourceType.GROUP:
        return operation, kind, group or ""
    if kind is ResourceType.CLUSTER:
        return operation, kind, CLUSTER_NAME
    return operation, kind, route.argument or SCHEMAS_TOPIC
