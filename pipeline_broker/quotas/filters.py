"""Entity filters of DescribeClientQuotas."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.quotas.entities import CLIENT_ID, IP, USER, Entity, QuotaError

__all__ = ["Component", "Match", "check_components", "matches"]


class Match(enum.IntEnum):
    EXACT = 0
    DEFAULT = 1
    ANY = 2


@attrs.frozen
class Component:
    """A condition on the name of one entity type; `name` is set for EXACT only."""

    entity_type: str
    match: int
    name: str | None = None


def check_components(components: Iterable[Component]) -> None:
    """Check the components of a filter.

    Raises:
        QuotaError: the entity types or their combination are invalid, or a match type is unknown or does not fit the
            name.
    """
    types: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise QuotaError("Invalid empty entity type.")
        if kind in types:
            raise QuotaError(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in {USER, CLIENT_ID, IP}:
            raise QuotaError(f"Unsupported entity type {kind}", ErrorCode.UNSUPPORTED_VERSION)
        _check_match(component)
        types.add(kind)
    if IP in types and len(types) > 1:
        raise QuotaError(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId"
            " filter component."
        )


def _check_match(component: Component) -> None:
    if component.match not in set(Match):
        raise QuotaError(f"Unknown match type {component.match}")
    if (component.name is None) is (component.match == Match.EXACT):
        names = {Match.EXACT: "EXACT", Match.DEFAULT: "DEFAULT", Match.ANY: "SPECIFIED"}
        wrong = "set match string to null" if component.name is None else "also specified a match string"
        raise QuotaError(f"Request specified MATCH_TYPE_{names[Match(component.match)]}, but {wrong}.")


def matches(entity: Entity, components: Iterable[Component], *, strict: bool) -> bool:
    """Return whether an entity matches all components of a filter.

    Args:
        components: at most one per entity type.
        strict: the entity must have no other types than the components.
    """
    parts = dict(entity)
    wanted = tuple(components)
    if strict and len(wanted) != len(parts):
        return False
    return all(
        one.entity_type in parts and (one.match == Match.ANY or parts[one.entity_type] == one.name) for one in wanted
    )
