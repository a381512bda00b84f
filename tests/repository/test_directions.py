"""Which room imports which: the contracts of pyproject.toml, and what an import really loads."""

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


def test_a_broker_without_a_store_loads_nothing_of_objects(broker_process):
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))\n"
        "from pipeline_broker.cli import main\n"
        "main()\n"
    )
    broker = broker_process(program=("-c", program))
    broker.stop()
    loaded = broker.stderr.split()
    assert "pipeline_broker.node.upkeep" in loaded
    assert [name for name in loaded if name.startswith(("pipeline_broker.objects", "obstore"))] == []
