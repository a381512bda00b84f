"""Which address is answered by what.

Rules of this file: a table, read without I/O. A method that a path does not have is told apart from a path that there
is not; HEAD goes where GET goes.
"""

from __future__ import annotations

import re

import attrs

__all__ = ["CHANGES", "PAGES", "Route", "find_route", "methods_of"]


@attrs.frozen
class Route:
    """One address.

    Attributes:
        name: of what answers it.
        argument: the part of the path that varies; empty where nothing does.
    """

    name: str
    argument: str = ""


PAGES = frozenset(
    {"/", "/topics", "/groups", "/access", "/configuration", "/connections", "/store", "/faults", "/requests"}
)
"""Beside /topics/NAME."""
TOPIC_PAGE = re.compile(r"/topics/([A-Za-z0-9._-]{1,249})")

EXACT = {
    "/api/broker": "broker",
    "/api/topics": "topics",
    "/api/groups": "groups",
    "/api/group": "group",
    "/api/lags": "lags",
    "/api/configuration": "configuration",
    "/api/connections": "connections",
    "/api/store": "store",
    "/api/refusals": "refusals",
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
)
_FAULTS = ("add", "remove", "clear", "release", "expire", "rebalance")
CHANGES = {
    "/api/group/offsets": Route("reset_offsets"),
    **{f"/api/changes/{name}": Route("change", name) for name in _CHANGED},
    **{f"/api/faults/{action}": Route("change_faults", action) for action in _FAULTS},
}
"""Every address that changes something: they are asked with POST, and nothing else is."""


def find_route(method: str, path: str) -> Route | None:
    """The route of a request; None where there is none."""
    if method == "POST":
        return CHANGES.get(path)
    if method not in {"GET", "HEAD"}:
        return None
    if path in PAGES or TOPIC_PAGE.fullmatch(path):
        return Route("page")
    if path in EXACT:
        return Route(EXACT[path])
    for pattern, name in VARYING:
        found = pattern.fullmatch(path)
        if found:
            return Route(name, found[1])
    return None


def methods_of(path: str) -> str:
    """What a path can be asked with, for the Allow header; empty where there is no such path."""
    return ", ".join(method for method in ("GET", "POST") if find_route(method, path) is not None)
