"""Subjects, versions and compatibility of the broker's schema registry as JSON."""

from __future__ import annotations

from typing import Any

from pipeline_broker.base.steps import Steps, first_few
from pipeline_broker.schema_registry.state import RegistryState
from pipeline_broker.schema_registry.values import Version

__all__ = ["schema_versions", "schemas"]

SUBJECTS_SHOWN_MAX = 1000
VERSIONS_SHOWN_MAX = 50
TEXT_SHOWN_MAX = 64 << 10  # characters of a schema


def schemas(state: RegistryState) -> Steps[dict[str, Any]]:
    """Return the global level, the number of subjects, and the first SUBJECTS_SHOWN_MAX by name, in steps."""
    names = state.subjects(with_deleted=True)
    rows = []
    for name in (yield from first_few(names, SUBJECTS_SHOWN_MAX, str)):
        versions = state.versions(name, with_deleted=True)
        yield
        if versions:  # it may have been deleted since
            live = [version.number for version in versions if not version.is_deleted]
            row = {"type": versions[-1].schema.type.value, "versions": len(live), "latest": max(live, default=None)}
            rows.append({"subject": name, **row, "id": versions[-1].schema_id, **_level(state, name)})
    return {"count": len(names), "level": _level(state, None)["level"], "subjects": rows}


def schema_versions(state: RegistryState, subject: str) -> Steps[dict[str, Any] | None]:
    """Return the latest VERSIONS_SHOWN_MAX versions of a subject, also deleted ones, in steps; None if it has none."""
    versions = state.versions(subject, with_deleted=True)
    if not versions:
        return None
    rows = []
    for version in reversed(versions[-VERSIONS_SHOWN_MAX:]):
        rows.append(_row(version))
        yield
    return {"subject": subject, "count": len(versions), "versions": rows, **_level(state, subject)}


def _level(state: RegistryState, subject: str | None) -> dict[str, Any]:
    own = state.config(subject) or {}
    return {
        "level": str(state.config_in_scope(subject)["compatibilityLevel"]),
        "has_own_level": "compatibilityLevel" in own,
    }


def _row(version: Version) -> dict[str, Any]:
    schema = version.schema
    return {
        "version": version.number,
        "id": version.schema_id,
        "type": schema.type.value,
        "is_deleted": version.is_deleted,
        "schema": schema.text[:TEXT_SHOWN_MAX],
        "is_cut": len(schema.text) > TEXT_SHOWN_MAX,
        "references": [f"{each.name}: {each.subject} {each.version}" for each in schema.references],
    }
