"""docs/reference/bounds.md lists exactly the entry points of the broker."""

import ast
import re
from pathlib import Path

import pytest

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.dashboard import routes
from pipeline_broker.node import metrics_endpoint, timelines, upkeep
from pipeline_broker.node.admin_socket import fault_commands
from pipeline_broker.schema_registry.api import TABLE
from stages.request_channel import BYTES_MAX

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/reference/bounds.md").read_text(encoding="utf-8")
ALL_SETTINGS_BYTES_MAX = 1 << 30

LISTENING = {
    "pipeline_broker/node/admin_socket.py": "`admin.socket`",
    "pipeline_broker/web/http_server.py": "what `SERVING_HTTP` names",
    "stages/listener.py": "Kafka listeners",
}
"""Files that listen."""
SERVING_HTTP = {
    "pipeline_broker/dashboard/service.py": "dashboard",
    "pipeline_broker/node/metrics_endpoint.py": "metrics",
    "pipeline_broker/node/schema_registry.py": "schema registry",
}


def documented():
    """Return the requests of each entry point."""
    table = DOCUMENT.split("| entry point | requests |")[1].split("\n\n")[0].splitlines()[2:]
    found = {}
    for row in table:
        _, entry_point, requests, clients, size, time, _ = (cell.strip() for cell in row.split("|"))
        assert all((clients, size, time)), f"a row of {entry_point} lacks clients, bytes or time"
        found.setdefault(entry_point, []).extend(re.findall(r"`([^`]+)`", requests))
    return found


def calls(*names):
    """The files of the broker in which something of one of these names is called."""
    found = set()
    for path in [*ROOT.glob("pipeline_broker/**/*.py"), *ROOT.glob("stages/**/*.py")]:
        if "testing" in path.parts or "measure" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if getattr(called, "attr", getattr(called, "id", None)) in names:
                found.add(str(path.relative_to(ROOT)))
    return found


def dashboard_routes():
    varying = {pattern.pattern for pattern, _ in routes.VARYING}
    paths = {re.sub(r"\(\[.*?\}\)", "*", pattern) for pattern in varying} - {"/api/(acls|users|quotas)"}
    assert all("(" not in path for path in paths), "a new kind of pattern"
    questions = {f"/api/{name}" for name in ("acls", "users", "quotas")}
    return {*routes.PAGES, "/topics/*", *routes.EXACT, *routes.CHANGES, *paths, *questions}


def commands():
    kept = {**fault_commands(None), **upkeep.LogMaintenance.commands(None), **timelines.Timelines.commands(None)}
    return set(kept)


ENTRY_POINTS = {
    "Kafka listeners": lambda: {served.name for served in SERVED.values()},
    "metrics": lambda: {metrics_endpoint.PATH},
    "dashboard": dashboard_routes,
    "schema registry": lambda: {"/" + "/".join(parts) for parts in TABLE},
    "`admin.socket`": commands,
}


def test_every_file_that_listens_is_known():
    assert calls("listen", "open_tcp_listeners", "create_server", "start_server") == set(LISTENING)
    assert calls("open_listeners") == set(SERVING_HTTP)
    assert {*LISTENING.values(), *SERVING_HTTP.values()} - {"what `SERVING_HTTP` names"} == set(ENTRY_POINTS)


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_the_table_has_exactly_the_requests_of_an_entry_point(entry_point):
    named, existing = documented()[entry_point], ENTRY_POINTS[entry_point]()
    assert len(existing) >= 1
    assert sorted(named) == sorted(existing)


def test_the_table_has_no_other_entry_point():
    assert set(documented()) == set(ENTRY_POINTS)


def test_the_routes_of_the_dashboard_are_all_of_its_addresses():
    """So that a route that is found in another way than by these tables is found here."""
    answered = [path for path in dashboard_routes() if routes.methods_of(path.replace("*", "x"))]
    assert sorted(answered) == sorted(dashboard_routes())


def test_all_settings_of_bytes_together_stay_below_a_gibibyte():
    config = BrokerConfig()
    names = sorted(name for name in dir(config) if name.startswith("pipeline_") and name.endswith("_bytes"))
    row = re.search(r"\| memory settings together \|.*", DOCUMENT)[0]
    assert len(names) == 4
    assert all(f"`{name.replace('_', '.')}`" in row for name in names)
    whole = sum(getattr(config, name) for name in names) + BYTES_MAX
    assert whole < ALL_SETTINGS_BYTES_MAX
    assert f"{whole >> 20} MiB" in row
