"""The compiled packages: which modules they are made of, and that they are the same sources."""

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.compiled import IS_COMPILED

ROOT = Path(__file__).parents[2]
HATCH = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
MODULES = HATCH["build"]["hooks"]["custom"]["modules"]

only_compiled = pytest.mark.skipif(not IS_COMPILED, reason="the packages are pure: make test-compiled")


def test_every_module_of_the_list_is_there_once():
    assert len(MODULES) == len(set(MODULES))
    assert [name for name in MODULES if not (ROOT / f"{name.replace('.', '/')}.py").is_file()] == []


def test_no_compiled_module_lies_beside_the_sources():
    assert [path for package in ("stages", "pipeline_broker") for path in (ROOT / package).rglob("*.so")] == []


def test_the_version_says_which_packages_run():
    command = [sys.executable, "-P", "-m", "pipeline_broker", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert re.fullmatch(rf"pipeline-broker \S+( \(\S+\))?, {'compiled' if IS_COMPILED else 'pure'}\n", said)


@only_compiled
def test_the_compiled_wheel_is_for_this_platform_and_holds_the_sources_that_are_here():
    (wheel,) = (ROOT / "build" / "wheel").glob("*.whl")
    assert not wheel.name.endswith("-none-any.whl")
    archive = zipfile.ZipFile(wheel)
    sources = [name for name in archive.namelist() if name.endswith(".py")]
    assert [name for name in sources if archive.read(name) != (ROOT / name).read_bytes()] == []
    assert {f"{name.replace('.', '/')}.py" for name in MODULES} <= set(sources)


@only_compiled
@pytest.mark.parametrize("name", MODULES)
def test_a_module_of_the_list_runs_compiled_from_the_source_that_is_here(name):
    origin = Path(importlib.util.find_spec(name).origin)
    assert origin.suffix != ".py"
    source = f"{name.rpartition('.')[2]}.py"
    assert (origin.parent / source).read_bytes() == (ROOT / f"{name.replace('.', '/')}.py").read_bytes()
