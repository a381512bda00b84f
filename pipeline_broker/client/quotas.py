"""Client quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from pipeline_broker.client.answers import answer_to
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import ClientError, check
from pipeline_broker.wire.messages.configs.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from pipeline_broker.wire.messages.configs.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

__all__ = ["Entity", "Quota", "alter_quotas", "entity_words", "quota_text", "quotas_of"]

Entity = Mapping[str, str | None]
"""An entity of KIP-546: names by entity type `user`, `client-id` or `ip`. The name None is the default entity, which
applies to all names without a quota of their own."""
_EXACTLY, _DEFAULT = 0, 1


@attrs.frozen
class Quota:
    entity: Entity
    name: str
    value: float


async def quotas_of(cluster: ClusterClient, entity: Entity, *, is_strict: bool) -> list[Quota]:
    """Return the quotas of an entity, sorted.

    Args:
        entity: the entity; an empty one matches all.
        is_strict: match exactly this entity; otherwise also entities with additional parts.

    Raises:
        BrokerRefused: the client may not describe quotas.
        ClientError: no broker can be reached.
    """
    components = [
        DescribeClientQuotasRequest.ComponentData(kind, _DEFAULT if name is None else _EXACTLY, name)
        for kind, name in entity.items()
    ]
    request = DescribeClientQuotasRequest(components, strict=is_strict)

    async def attempt() -> list[Quota]:
        answer = await cluster.ask(request, DescribeClientQuotasResponse)
        check(answer.error_code, f"quotas of {entity_words(entity)}", answer.error_message)
        return [
            Quota({part.entity_type: part.entity_name for part in entry.entity}, it.key, it.value)
            for entry in answer.entries or ()
            for it in entry.values
        ]

    found = await cluster.retrying(attempt)
    return sorted(found, key=lambda it: (sorted((kind, name or "") for kind, name in it.entity.items()), it.name))


async def alter_quotas(cluster: ClusterClient, entity: Entity, changes: Mapping[str, str | None]) -> None:
    """Change quotas of an entity, all or none.

    Args:
        entity: an entity with at least one part.
        changes: new values by name; None removes a quota.

    Raises:
        BrokerRefused: a quota is unknown, or the client may not change it.
        ClientError: a value is not a number, or no broker can be reached.
    """
    parts = [AlterClientQuotasRequest.EntityData(kind, name) for kind, name in entity.items()]
    operations = [
        AlterClientQuotasRequest.OpData(name, 0.0 if value is None else _number(name, value), value is None)
        for name, value in changes.items()
    ]
    request = AlterClientQuotasRequest([AlterClientQuotasRequest.EntryData(parts, operations)])

    async def attempt() -> None:
        answer = await cluster.ask(request, AlterClientQuotasResponse)
        it = answer_to(0, enumerate(answer.entries), entity_words(entity))
        check(it.error_code, entity_words(entity), it.error_message)

    await cluster.retrying(attempt)


def quota_text(value: float) -> str:
    return f"{value:g}" if value % 1 else f"{value:.0f}"


def entity_words(entity: Entity) -> str:
    words = [
        f"every {kind}" if name is None else f"{kind} {name}"
        for kind, name in ((kind.removesuffix("-id"), name) for kind, name in entity.items())
    ]
    return " and ".join(words) or "everybody"


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ClientError(f"{name}: {text!r} is not a number")
    return number
