"""Denials are counted and logged in Kafka's words, and nothing else is."""

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
from pipeline_broker.security.refusals import Refusal, Refusals

ALICE, ROOT = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "root")
HOST = "10.0.0.1"


@pytest.fixture
def denials():
    return Refusals(lambda: 7)


@pytest.fixture
def authorizer(denials):
    acls = Acls()
    read = AclOperation.READ
    rule = AclBinding(ResourceType.TOPIC, "t", PatternType.LITERAL, str(ALICE), "*", read, PermissionType.ALLOW)
    acls.durable(acls.add([rule]))
    return Authorizer(acls, [str(ROOT)], denials=denials)


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
def test_a_denial_is_logged_with_principal_operation_and_host(authorizer, caplog, operation, kind, name, told):
    with caplog.at_level(logging.INFO, LOGGER):
        assert not authorizer.is_allowed(ALICE, HOST, operation, kind, name)
    assert caplog.record_tuples == [(LOGGER, logging.INFO, f"Principal = User:alice is Denied operation = {told}")]


def test_a_denial_is_counted_whether_or_not_it_is_logged(authorizer, denials):
    for _ in range(2):
        assert not authorizer.is_allowed(ALICE, HOST, AclOperation.WRITE, ResourceType.TOPIC, "t")
    kind = ("WRITE", "Topic")
    assert denials.by_kind == {kind: 2}
    assert denials.newest() == [Refusal(kind=kind, source=("User:alice", HOST), name="t", count=2, last_ms=7)]


def test_permitted_and_silent_checks_are_neither_logged_nor_counted(authorizer, denials, caplog):
    with caplog.at_level(logging.DEBUG, LOGGER):
        assert authorizer.is_allowed(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "t")
        assert authorizer.is_allowed(ROOT, HOST, AclOperation.WRITE, ResourceType.TOPIC, "t")
        assert not authorizer.is_allowed(ALICE, HOST, AclOperation.WRITE, ResourceType.TOPIC, "t", is_logged=False)
    assert not caplog.record_tuples
    assert not denials.by_kind
