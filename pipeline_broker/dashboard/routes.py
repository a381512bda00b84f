"""Which address is answered by what.

Rules of this file: a table, read without I/O. A method that a path does not have is told apart from a path that there
is not; HEAD goes where GET goes.
"""

from __future__ import annotations

import re

import attrs

__all__ = ["PAGES", "Route", "find_route", "methods_of"]


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
    ("GET", "/api/broker"): "broker",
    ("GET", "/api/topics"): "topics",
    ("GET", "/api/groups"): "groups",
    ("GET", "/api/group"): "group",
    ("GET", "/api/configuration"): "configuration",
    ("GET", "/api/connections"): "connections",
    ("GET", "/api/store"): "store",
    ("GET", "/api/faults"): "faults",
    ("GET", "/api/faults/choices"): "fault_choices",
    ("POST", "/api/group/offsets"): "reset_offsets",
    ("GET", "/events/pipeline"): "pipeline_events",
    ("GET", "/events/requests"): "request_events",
    ("GET", "/events/beside"): "beside_events",
}
CHANGE = re.compile(
    r"/api/changes/(create-topic|delete-topic|add-partitions|empty-topic|configure|produce|delete-group)"
)
VARYING = (
    ("GET", re.compile(r"/api/topics/([A-Za-z0-9._-]{1,249})"), "topic"),
    ("GET", re.compile(r"/api/topics/([A-Za-z0-9._-]{1,249})/records"), "records"),
    ("GET", re.compile(r"/api/topics/([A-Za-z0-9._-]{1,249})/groups"), "groups_of_topic"),
    ("GET", re.compile(r"/events/topics/([A-Za-z0-9._-]{1,249})"), "tail_events"),
    ("POST", re.compile(r"/api/faults/(add|remove|clear|release|expire|rebalance)"), "change_faults"),
    ("POST", CHANGE, "change"),
    ("GET", re.compile(r"/api/(acls|users|quotas)"), "question"),
    ("GET", re.compile(r"/static/([A-Za-z0-9._-]{1,64})"), "static"),
)


def find_route(method: str, path: str) -> Route | None:
    """The route of a request; None where there is none."""
    method = "GET" if method == "HEAD" else method
    if method == "GET" and (path in PAGES or TOPIC_PAGE.fullmatch(path)):
        return Route("page")
    name = EXACT.get((method, path))
    if name is not None:
        return Route(name)
    for wanted, pattern, name in VARYING:
        found = pattern.fullmatch(path)
        if found and wanted == method:
            return Route(name, found[1])
    return None


def methods_of(path: str) -> str:
    """What a path can be asked with, for the Allow header; empty where there is no such path."""
    return ", ".join(method for method in ("GET", "POST") if find_route(method, path) is not None)
