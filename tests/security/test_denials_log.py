"""What is denied is told to the log in Kafka's words, and nothing else is."""

import logging

import pytest

from pipeline_broker.security.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from pipeline_broker.security.acls import Acls
from pipeline_broker.security.authorizer import LOGGER, Authorizer
from pipeline_broker.security.principal import KafkaPrincipal

ALICE, ROOT = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "root")
HOST = "10.0.0.1"


@pytest.fixture
def authorizer():
    acls = Acls()
    read = AclOperation.READ
    rule = AclBinding(ResourceType.TOPIC, "t", PatternType.LITERAL, str(ALICE), "*", read, PermissionType.ALLOW)
    acls.durable(acls.add([rule]))
    return Authorizer(acls, [str(ROOT)])


@pytest.mark.parametrize(
    ("operation", "kind", "name", "told"),
    [
        (AclOperation.WRITE, ResourceType.TOPIC, "t", "WRITE from host = 10.0.0.1 on resource = Topic:LITERAL:t"),
        (AclOperation.READ, ResourceType.GROUP, "g", "READ from host = 10.0.0.1 on resource = Group:LITERAL:g"),
        (
            AclOperation.DESCRIBE_CONFIGS,
            ResourceType.CLUSTER,
            CLUSTER_NAME,
            "DESCRIBE_CONFIGS from host = 10.0.0.1 on resource = Cluster:LITERAL:kafka-cluster",
        ),
    ],
)
def test_a_denial_is_told_with_who_what_and_from_where(authorizer, caplog, operation, kind, name, told):
    with caplog.at_level(logging.INFO, LOGGER):
        assert not authorizer.is_allowed(ALICE, HOST, operation, kind, name)
    assert caplog.record_tuples == [(LOGGER, logging.INFO, f"Principal = User:alice is Denied operation = {told}")]


def test_what_is_allowed_or_only_looked_at_is_not_told(authorizer, caplog):
    with caplog.at_level(logging.DEBUG, LOGGER):
        assert authorizer.is_allowed(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "t")
        assert authorizer.is_allowed(ROOT, HOST, AclOperation.WRITE, ResourceType.TOPIC, "t")
        assert not authorizer.is_allowed(ALICE, HOST, AclOperation.WRITE, ResourceType.TOPIC, "t", is_logged=False)
    assert not caplog.record_tuples
