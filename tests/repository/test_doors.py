"""docs/reference/bounds.md lists exactly the entry points of the broker."""

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path

import pytest

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.dashboard import routes
from scripts.entry_points import entry_points
from stages.request_channel import BYTES_MAX

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/reference/bounds.md").read_text(encoding="utf-8")
ALL_SETTINGS_BYTES_MAX = 1 << 30

UNIX = "the Unix sockets"
LISTENING = {
    "pipeline_broker/node/unix_socket.py": UNIX,
    "pipeline_broker/web/http_server.py": "what `SERVING_HTTP` names",
    "stages/listener.py": "Kafka listeners",
}
"""Files that listen."""
SERVING_HTTP = {
    "pipeline_broker/dashboard/service.py": "dashboard",
    "pipeline_broker/node/control_endpoint.py": "control",
    "pipeline_broker/node/metrics_endpoint.py": "metrics",
    "pipeline_broker/node/schema_registry.py": "schema registry",
}


def documented():
    """Return the entry points that have a row with their limits, each with its cells."""
    table = DOCUMENT.split("| entry point | requests | clients |")[1].split("\n\n")[0].splitlines()[2:]
    found = {}
    for row in table:
        _, entry_point, *cells, _ = (cell.strip() for cell in row.split("|"))
        found.setdefault(entry_point, []).append(cells)
    return found


@functools.cache
def calls():
    """The names that the files of the broker call, each with its files."""
    found = defaultdict(set)
    for path in [*ROOT.glob("pipeline_broker/**/*.py"), *ROOT.glob("stages/**/*.py")]:
        if "testing" in path.parts or "measure" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if name := getattr(called, "attr", getattr(called, "id", None)):
                found[name].add(str(path.relative_to(ROOT)))
    return found


def callers(*names):
    """The files of the broker in which something of one of these names is called."""
    return set().union(*(calls()[name] for name in names))


ENTRY_POINTS = entry_points()
NAMES = {name.partition(",")[0] for name in ENTRY_POINTS}


def test_every_file_that_listens_is_known():
    assert callers("listen", "open_tcp_listeners", "create_server", "start_server") == set(LISTENING)
    assert callers("open_listeners") == set(SERVING_HTTP)
    sockets = {"`admin.socket`", "`N.socket`"}
    assert sockets | {*LISTENING.values(), *SERVING_HTTP.values()} - {"what `SERVING_HTTP` names", UNIX} == NAMES


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_every_entry_point_has_requests(entry_point):
    assert ENTRY_POINTS[entry_point]


def test_the_table_has_the_limits_of_exactly_the_entry_points():
    assert set(documented()) == NAMES
    assert all(len(cells) == 4 and all(cells) for rows in documented().values() for cells in rows)


def test_the_routes_of_the_dashboard_are_all_of_its_addresses():
    """So that a route that is found in another way than by these tables is found here."""
    paths = ENTRY_POINTS["dashboard"] + ENTRY_POINTS["dashboard, changes"]
    assert [path for path in paths if not routes.methods_of(path.replace("*", "x"))] == []


def test_all_settings_of_bytes_together_stay_below_a_gibibyte():
    config = BrokerConfig()
    names = sorted(name for name in dir(config) if name.startswith("pipeline_") and name.endswith("_bytes"))
    row = re.search(r"\| all memory limits together \|.*", DOCUMENT)[0]
    assert len(names) == 4
    assert all(f"`{name.replace('_', '.')}`" in row for name in names)
    whole = sum(getattr(config, name) for name in names) + BYTES_MAX
    assert whole < ALL_SETTINGS_BYTES_MAX
    assert f"{whole >> 20} MiB" in row
