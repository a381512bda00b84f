"""The right that a client lacks, by the request that the broker refused (docs/guides/access-control.md)."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final

from pipeline_broker.base.error_code import ErrorCode

__all__ = ["OPERATIONS", "RESOURCES", "missing_right", "note_answered", "note_needed"]

RESOURCES: Mapping[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
}
OPERATIONS: Mapping[str, Mapping[str, str]] = {
    "topic": {
        "CreatePartitions": "alter",
        "CreateTopics": "create",
        "DeleteRecords": "delete",
        "DeleteTopics": "delete",
        "DescribeConfigs": "describe-configs",
        "DescribeProducers": "read",
        "Fetch": "read",
        "IncrementalAlterConfigs": "alter-configs",
        "ListOffsets": "describe",
        "Metadata": "describe",
        "Produce": "write",
    },
    "group": {
        "ConsumerGroupDescribe": "describe",
        "DeleteGroups": "delete",
        "DescribeConfigs": "describe-configs",
        "DescribeGroups": "describe",
        "DescribeShareGroupOffsets": "describe",
        "FindCoordinator": "describe",
        "Heartbeat": "read",
        "JoinGroup": "read",
        "OffsetCommit": "read",
        "OffsetFetch": "describe",
        "ShareGroupDescribe": "describe",
        "StreamsGroupDescribe": "describe",
        "SyncGroup": "read",
    },
    "cluster": {
        "AlterClientQuotas": "alter-configs",
        "AlterUserScramCredentials": "alter",
        "CreateAcls": "alter",
        "DeleteAcls": "alter",
        "DescribeAcls": "describe",
        "DescribeClientQuotas": "describe-configs",
        "DescribeConfigs": "describe-configs",
        "DescribeLogDirs": "describe",
        "DescribeUserScramCredentials": "describe",
        "IncrementalAlterConfigs": "alter-configs",
        "InitProducerId": "idempotent-write",
    },
    "transactional id": {
        "DescribeTransactions": "describe",
        "EndTxn": "write",
        "InitProducerId": "write",
        "Produce": "write",
    },
}
"""The missing operation, by resource and API, as `acls add` spells it."""
_ANSWERED: Final = ContextVar("answered", default="")
_NOTHING: Final[tuple[str, tuple[str, ...]]] = ("", ())
_NEEDED: Final = ContextVar("needed", default=_NOTHING)


def note_needed(operation: str, *resources: str) -> None:
    # Errors of this task and its children name this right, which includes describe.
    _NEEDED.set((operation, resources))


def note_answered(request: Any) -> None:
    # A request that may create a topic is also refused without the right to do so.
    is_known = not getattr(request, "allow_auto_topic_creation", False)
    _ANSWERED.set(type(request).__name__.removesuffix("Request") if is_known else "")


def missing_right(code: int) -> str:
    """Return the missing permission and its remedy as a sentence, or "" for other errors.

    It is a right for the latest request that was answered in this task.
    """
    resource = RESOURCES.get(code)
    if resource is None:
        return ""
    operation = OPERATIONS[resource].get(_ANSWERED.get())
    needed, resources = _NEEDED.get()
    is_creating = not _ANSWERED.get()
    if resource in resources and operation in {needed, "describe", None} and (needed == "write" or not is_creating):
        places = " and ".join(f"on the {each}" for each in resources)
        grants = f"`acls add --operation {needed}` grants it, which includes describe"
        creation = " A new topic also needs create." if is_creating else ""
        return f"The client needs the right to {needed} {places}; {grants}.{creation}"
    if operation is None:
        return f"The client lacks a right on the {resource}; `acls add` grants it."
    return f"The client lacks the right to {operation} on the {resource}; `acls add --operation {operation}` grants it."
