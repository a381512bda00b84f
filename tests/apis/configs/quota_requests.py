"""Setting and reading quotas at a desk."""

from __future__ import annotations

from typing import Any

from pipeline_broker.wire.messages.configs.alter_client_quotas import AlterClientQuotasRequest
from pipeline_broker.wire.messages.configs.describe_client_quotas import DescribeClientQuotasRequest

Parts = list[tuple[str, str | None]]


def alteration(parts: Parts, *operations: tuple[str, float | None]) -> AlterClientQuotasRequest.EntryData:
    made = AlterClientQuotasRequest
    return made.EntryData(
        entity=[made.EntityData(kind, name) for kind, name in parts],
        ops=[made.OpData(key, 0.0 if value is None else value, value is None) for key, value in operations],
    )


def alter(
    desk: Any, parts: Parts, *operations: tuple[str, float | None], version: int = 1, validate_only: bool = False
) -> int:
    """Alter the quotas of one entity; return the error code."""
    request = AlterClientQuotasRequest(entries=[alteration(parts, *operations)], validate_only=validate_only)
    (entry,) = desk.ask(request, version).entries
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == sorted(parts)
    return int(entry.error_code)


def described(desk: Any, version: int = 1) -> list[tuple[Parts, dict[str, float]]]:
    answer = desk.ask(DescribeClientQuotasRequest(), version)
    assert answer.error_code == 0
    return [
        ([(part.entity_type, part.entity_name) for part in entry.entity], {one.key: one.value for one in entry.values})
        for entry in answer.entries
    ]
