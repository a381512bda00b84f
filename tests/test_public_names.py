"""The names that programs and tests import from `pipeline_broker`."""

import ast
import re
import sys
from pathlib import Path

import pipeline_broker
from tests.plugin_runs import run_python

ROOT = Path(__file__).parents[1]


def test_every_public_name_is_the_object_that_type_checkers_see():
    tree = ast.parse((ROOT / "pipeline_broker/__init__.py").read_text(encoding="utf-8"))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {}
    for node in checked.body:
        for alias in node.names:
            __import__(node.module)
            seen[alias.name] = getattr(sys.modules[node.module], alias.name)
    assert {name: getattr(pipeline_broker, name) for name in pipeline_broker.__all__} == seen


def test_the_reference_shows_every_public_name():
    page = (ROOT / "docs/reference/python-api.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\.\. auto\w+:: (?:pipeline_broker\.faults\.)?(\w+)$", page, re.MULTILINE)
    assert sorted(shown) == sorted(pipeline_broker.__all__)


EACH_FIRST = """
import sys

import pipeline_broker

for name in pipeline_broker.__all__:
    for module in [module for module in sys.modules if module.startswith(("pipeline_broker.", "stages"))]:
        del sys.modules[module]
    print(name, getattr(pipeline_broker, name).__name__)
"""


def test_every_public_name_can_be_the_first_import(tmp_path):
    result = run_python(tmp_path, "-c", EACH_FIRST)
    assert result.stderr == ""
    shown = dict(line.split() for line in result.stdout.splitlines())
    assert shown == {name: name for name in pipeline_broker.__all__} | {"effects": "pipeline_broker.faults.effects"}


def test_dir_lists_the_public_names():
    assert set(pipeline_broker.__all__) <= set(dir(pipeline_broker))


def test_an_import_of_errors_does_not_start_the_broker(tmp_path):
    result = run_python(
        tmp_path, "-c", "from pipeline_broker import FaultError; import sys; print('trio' in sys.modules)"
    )
    assert (result.stdout, result.stderr) == ("False\n", "")
