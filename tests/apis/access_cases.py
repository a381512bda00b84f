"""Helpers for the tables of requests and rights: ACLs, messages by module name, one case each."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.security.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from pipeline_broker.wire.registry import ApiKey, message_classes

TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
REFUSALS = {TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}

Op = AclOperation
BATCH = build_batch([NewRecord(b"v", None, 0)])


def rule(resource_type, name, operation):
    return AclBinding(resource_type, name, PatternType.LITERAL, "User:ANONYMOUS", "*", operation, PermissionType.ALLOW)


def topic(operation):
    return rule(ResourceType.TOPIC, "t", operation)


def group(operation):
    return rule(ResourceType.GROUP, "g", operation)


def cluster(operation):
    return rule(ResourceType.CLUSTER, CLUSTER_NAME, operation)


def _request_class(name):
    return message_classes(ApiKey[name.upper()])[0]


def make(name, /, **fields):
    return _request_class(name)(**fields)


def inner(name, struct, /, *values, **fields):
    return getattr(_request_class(name), struct)(*values, **fields)


def case(key, version, code, rules, /, **fields):
    return pytest.param(version, code, rules, make(key.name.lower(), **fields), id=f"{key.name}-{version}-{code.name}")
