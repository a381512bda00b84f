"""Settings of topics, brokers, groups and client metrics, and quotas of users, clients and addresses, in one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from pipeline_broker.client.answers import answer_to
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import ClientError, check_topic
from pipeline_broker.client.quotas import alter_quotas, quota_text, quotas_of
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from pipeline_broker.wire.messages.configs.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

__all__ = ["QUOTA_KINDS", "RESOURCE_KINDS", "Setting", "Subject", "alter_settings", "settings_of"]

RESOURCE_KINDS = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
"""Kinds of subjects with settings, and Kafka's ConfigResource types."""
QUOTA_KINDS = {"user": "user", "client": "client-id", "ip": "ip"}
"""Kinds of subjects with quotas, and Kafka's entity types."""
_BROKER, _BROKER_LOGGER = 4, 8
_SET, _DELETE = 0, 1
DEFAULT_SOURCE = 5
# ConfigSource of DescribeConfigs.
_SOURCES = {
    1: "topic",
    2: "broker",
    3: "every broker",
    4: "startup",  # Kafka's STATIC_BROKER_CONFIG: a file, --set, another option or its default
    DEFAULT_SOURCE: "default",
    6: "logger",
    7: "client-metrics",
    8: "group",
}


@attrs.frozen(slots=True)
class Subject:
    """A resource with settings, or an entity with quotas.

    Attributes:
        kind: a key of RESOURCE_KINDS or QUOTA_KINDS.
        name: the name of the resource or entity; None: the default of the kind.
    """

    kind: str
    name: str | None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name is not None else f"every {self.kind}"


@attrs.frozen(slots=True)
class Setting:
    """A setting or a quota.

    Attributes:
        name: Kafka's name.
        value: None if the value is secret or unset.
        source: where the value comes from, such as "topic" or "startup".
        is_default: the value was never set.
        is_secret: the broker does not reveal the value.
        is_read_only: the value cannot change while the broker runs.
    """

    name: str
    value: str | None
    source: str
    is_default: bool = False
    is_secret: bool = False
    is_read_only: bool = False


async def settings_of(cluster: ClusterClient, subject: Subject, names: Sequence[str] = ()) -> list[Setting]:
    """Return the settings of a subject, sorted by name.

    Args:
        names: the wanted settings; empty: all. Quotas that are not set are omitted.

    Raises:
        ClientError: the subject or a setting is unknown, or the client may not describe it.
    """
    if subject.kind in QUOTA_KINDS:
        quotas = await quotas_of(cluster, {QUOTA_KINDS[subject.kind]: subject.name}, is_strict=True)
        found = [Setting(it.name, quota_text(it.value), subject.kind) for it in quotas]
    else:
        found = await _configs(cluster, subject, names)
    missing = set(names) - {setting.name for setting in found}
    if missing and subject.kind not in QUOTA_KINDS:
        raise ClientError(f"{subject} has no setting {', '.join(sorted(missing))}: see `config get ... --all`")
    return sorted((it for it in found if not names or it.name in names), key=lambda it: it.name)


async def _configs(cluster: ClusterClient, subject: Subject, names: Sequence[str]) -> list[Setting]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        RESOURCE_KINDS[subject.kind], subject.name or "", list(names) or None
    )
    request = DescribeConfigsRequest([resource])

    async def attempt() -> list[Setting]:
        answer = await cluster.ask(request, DescribeConfigsResponse, node=await _node(cluster, subject))
        named = (((it.resource_type, it.resource_name), it) for it in answer.results)
        result = answer_to((resource.resource_type, resource.resource_name), named, str(subject))
        check_topic(result.error_code, subject.name, str(subject), result.error_message)
        return [_setting(it) for it in result.configs]

    return await cluster.retrying(attempt)


def _setting(config: DescribeConfigsResponse.DescribeConfigsResourceResult) -> Setting:
    source = _SOURCES.get(config.config_source, f"source {config.config_source}")
    is_default = config.config_source == DEFAULT_SOURCE
    return Setting(config.name, config.value, source, is_default, config.is_sensitive, config.read_only)


async def alter_settings(cluster: ClusterClient, subject: Subject, changes: Mapping[str, str | None]) -> None:
    """Change settings of a subject, all or none.

    Args:
        changes: new values by name; None restores the default.

    Raises:
        ClientError: a value is invalid, the subject is unknown, or the client may not change it.
    """
    if subject.kind in QUOTA_KINDS:
        await alter_quotas(cluster, {QUOTA_KINDS[subject.kind]: subject.name}, changes)
        return
    altered = [
        IncrementalAlterConfigsRequest.AlterableConfig(name, _DELETE if value is None else _SET, value)
        for name, value in changes.items()
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        RESOURCE_KINDS[subject.kind], subject.name or "", altered
    )
    request = IncrementalAlterConfigsRequest([resource])

    async def attempt() -> None:
        node = await _node(cluster, subject)
        answer = await cluster.ask(request, IncrementalAlterConfigsResponse, node=node)
        named = (((it.resource_type, it.resource_name), it) for it in answer.responses)
        result = answer_to((resource.resource_type, resource.resource_name), named, str(subject))
        check_topic(result.error_code, subject.name, str(subject), result.error_message)

    await cluster.retrying(attempt)


async def _node(cluster: ClusterClient, subject: Subject) -> int | None:
    # Only the broker itself knows its own settings; any broker knows the others.
    if RESOURCE_KINDS[subject.kind] not in {_BROKER, _BROKER_LOGGER} or subject.name is None:
        return None
    topology = await cluster.refresh(())
    known = {str(node): node for node in topology.brokers}
    if subject.name not in known:
        raise ClientError(f"unknown broker {subject.name}. Use one of {', '.join(sorted(known))}")
    return known[subject.name]
