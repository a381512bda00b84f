"""Failed logins and denied requests as JSON. `security.refusals` bounds their number and texts."""

from __future__ import annotations

from typing import Any

from pipeline_broker.broker.broker import Broker
from pipeline_broker.security.refusals import Refusals

__all__ = ["refusals"]

LOGIN_KIND, LOGIN_SOURCE = ("listener", "mechanism"), ("from",)
DENIAL_KIND, DENIAL_SOURCE = ("operation", "resource"), ("principal", "from")


def refusals(broker: Broker) -> dict[str, Any]:
    return {
        "logins": _shown(broker.failed_logins, LOGIN_KIND, LOGIN_SOURCE),
        "denials": _shown(broker.denials, DENIAL_KIND, DENIAL_SOURCE),
    }


def _shown(refusals: Refusals, kind_names: tuple[str, str], source_names: tuple[str, ...]) -> dict[str, Any]:
    kinds = [
        {**dict(zip(kind_names, kind, strict=True)), "count": count}
        for kind, count in refusals.by_kind.most_common()
        if count
    ]
    rows = [
        {
            **dict(zip(source_names, row.source, strict=True)),
            **dict(zip(kind_names, row.kind or ("", ""), strict=True)),
            "name": row.name,
            "is_sum": row.kind is None,
            "count": row.count,
            "last_ms": row.last_ms,
            "reason": row.reason,
        }
        for row in refusals.newest()
    ]
    return {"kinds": kinds, "rows": rows, "left_out": refusals.left_out}
