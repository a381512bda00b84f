"""Which room imports which: the contracts of pyproject.toml, and what an import really loads."""

import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SYNCHRONOUS = (
    "apis",
    "broker",
    "config",
    "faults",
    "log",
    "objects",
    "records",
    "state",
    "telemetry",
    "traces",
    "wire",
)


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_import_contracts_hold():
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    result = python(program)
    assert result.returncode == 0, result.stdout + result.stderr


def test_importing_the_broker_loads_neither_trio_nor_anything_of_ours():
    result = python("import sys, pipeline_broker; print(*sorted(sys.modules))")
    loaded = result.stdout.split()
    assert result.returncode == 0, result.stderr
    assert "trio" not in loaded
    assert [name for name in loaded if name.startswith(("pipeline_broker.", "stages"))] == []


@pytest.mark.parametrize("package", ["stages", "spark_analysis", "pyspark_pipeline_broker"])
def test_importing_a_package_loads_nothing_heavy(package):
    result = python(f"import sys, {package}; print(*sorted(sys.modules))")
    assert result.returncode == 0, result.stderr
    assert {"trio", "pyspark", "pyarrow"}.isdisjoint(result.stdout.split())


def test_synchronous_rooms_run_without_trio():
    found = [module.name for module in pkgutil.iter_modules([str(ROOT / "pipeline_broker")])]
    rooms = [f"pipeline_broker.{name}" for name in found if name in SYNCHRONOUS]
    program = (
        "import importlib, pkgutil, sys\n"
        "sys.modules['trio'] = None\n"  # an import of it fails from here on
        f"for room in {rooms!r}:\n"
        "    module = importlib.import_module(room)\n"
        "    for part in pkgutil.walk_packages(getattr(module, '__path__', []), room + '.'):\n"
        "        importlib.import_module(part.name)\n"
    )
    result = python(program)
    assert result.returncode == 0, result.stderr


UNUSED_BY_A_PLAIN_BROKER = (
    *("click.shell_completion", "cryptography", "h11", "jwt", "obstore", "re2"),
    *("pipeline_broker.client", "pipeline_broker.commands.cluster", "pipeline_broker.dashboard"),
    *("pipeline_broker.embedded", "pipeline_broker.inspect", "pipeline_broker.measure", "pipeline_broker.web"),
    *(
        "pipeline_broker.objects",
        "pipeline_broker.log.object_journal.object_journal",
        "pipeline_broker.log.archive.objects.object_store",
    ),
    *("pipeline_broker.node.archive_store", "pipeline_broker.node.metrics_endpoint", "pipeline_broker.node.standby"),
    *("pipeline_broker.schema_registry", "pipeline_broker.node.schema_registry"),
    *("pipeline_broker.security.acl", "pipeline_broker.security.authorizer", "pipeline_broker.security.sasl"),
    *("pipeline_broker.security.delegation_tokens", "pipeline_broker.security.scram", "pipeline_broker.security.tls"),
    *("pipeline_broker.quotas.client_quotas", "pipeline_broker.quotas.entities", "pipeline_broker.state.features"),
    *("pipeline_broker.state.groups", "pipeline_broker.state.transactions", "pipeline_broker.state.share_coordinator"),
    *("pipeline_broker.log.compaction", "pipeline_broker.log.compaction.cleaning"),
    *("pipeline_broker.broker.held_by_clients", "pipeline_broker.telemetry.broker_metrics"),
    *("pipeline_broker.telemetry.request_log", "pipeline_broker.telemetry.trace_files"),
)
"""Modules and rooms of what somebody has to ask for: no other start, the first or a later one, pays for them."""


@pytest.mark.parametrize("starts", [1, 2])
def test_a_plain_broker_loads_nothing_that_it_does_not_use(broker_process, starts):
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))\n"
        "from pipeline_broker.cli import main\n"
        "main()\n"
    )
    for _ in range(starts):
        broker = broker_process(program=("-c", program))
        broker.stop()
    loaded = broker.stderr.split()
    assert "pipeline_broker.node.upkeep" in loaded
    ours = [name for name in UNUSED_BY_A_PLAIN_BROKER if name.startswith("pipeline_broker")]
    assert [name for name in ours if importlib.util.find_spec(name) is None] == []
    unused = tuple(f"{name}." for name in UNUSED_BY_A_PLAIN_BROKER)
    assert [name for name in loaded if f"{name}.".startswith(unused)] == []
