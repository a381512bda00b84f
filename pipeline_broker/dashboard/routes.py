"""The table of addresses that the dashboard serves."""

from __future__ import annotations

import re

import attrs

__all__ = ["CHANGES", "PAGES", "Route", "find_route", "methods_of"]


@attrs.frozen
class Route:
    """The handler of an address.

    Attributes:
        name: the name of the view or handler.
        argument: the variable part of the path, or empty.
    """

    name: str
    argument: str = ""


PAGES = frozenset(
    {
        "/",
        "/topics",
        "/groups",
        "/access",
        "/configuration",
        "/connections",
        "/store",
        "/faults",
        "/requests",
        "/brokers",
        "/schemas",
    }
)
ENTRY_PAGES = re.compile(r"/topics/[A-Za-z0-9._-]{1,249}|/groups/.{1,8192}")
"""The pages of one topic and of one group, whose name may contain any character."""

EXACT = {
    "/api/broker": "broker",
    "/api/brokers": "brokers",
    "/api/topics": "topics",
    "/api/groups": "groups",
    "/api/group": "group",
    "/api/lags": "lags",
    "/api/configuration": "configuration",
    "/api/connections": "connections",
    "/api/store": "store",
    "/api/refusals": "refusals",
    "/api/acls/choices": "acl_choices",
    "/api/schemas": "schemas",
    "/api/schemas/versions": "schema_versions",
    "/api/faults": "faults",
    "/api/faults/choices": "fault_choices",
    "/events/pipeline": "pipeline_events",
    "/events/requests": "request_events",
    "/events/beside": "beside_events",
}
VARYING = (
    (re.compile(r"/api/topics/([A-Za-z0-9._-]{1,249})"), "topic"),
    (re.compile(r"/api/topics/([A-Za-z0-9._-]{1,249})/records"), "records"),
    (re.compile(r"/api/topics/([A-Za-z0-9._-]{1,249})/groups"), "groups_of_topic"),
    (re.compile(r"/events/topics/([A-Za-z0-9._-]{1,249})"), "tail_events"),
    (re.compile(r"/api/(acls|users|quotas)"), "question"),
    (re.compile(r"/static/([A-Za-z0-9._-]{1,64})"), "static"),
)

_CHANGED = (
    "create-topic",
    "delete-topic",
    "add-partitions",
    "empty-topic",
    "configure",
    "produce",
    "delete-group",
    "delete-offsets",
    "create-acl",
    "delete-acl",
    "set-password",
    "delete-password",
    "set-quota",
)
_SCHEMAS = ("register-schema", "set-compatibility", "delete-schema")
_FAULTS = ("add", "remove", "clear", "release", "expire", "rebalance")
CHANGES = {
    "/api/group/offsets": Route("reset_offsets"),
    **{f"/api/changes/{name}": Route("change", name) for name in _CHANGED},
    **{f"/api/changes/{name}": Route("change_schemas", name) for name in _SCHEMAS},
    **{f"/api/faults/{action}": Route("change_faults", action) for action in _FAULTS},
}
"""The addresses of all changes. They accept POST, and all other addresses only GET and HEAD."""


def find_route(method: str, path: str) -> Route | None:
    if method == "POST":
        return CHANGES.get(path)
    if method not in {"GET", "HEAD"}:
        return None
    if path in PAGES or ENTRY_PAGES.fullmatch(path):
        return Route("page")
    if path in EXACT:
        return Route(EXACT[path])
    for pattern, name in VARYING:
        found = pattern.fullmatch(path)
        if found:
            return Route(name, found[1])
    return None


def methods_of(path: str) -> str:
    """Return the methods that a path accepts, for the Allow header; empty for an unknown path."""
    return ", ".join(method for method in ("GET", "POST") if find_route(method, path) is not None)
