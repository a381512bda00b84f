"""Every block of Python in docs/guides/testing.md runs, and so does the example that it points to."""

import re
import shutil

import pytest

from tests.documents import blocks, programs, write_tests
from tests.forks import ROOT
from tests.plugin_runs import run_pytest, run_python

DOCUMENT = ROOT / "docs/guides/testing.md"

pytestmark = pytest.mark.clients


def passed(result):
    found = re.search(r"^(\d+) passed in", result.stdout, re.MULTILINE)
    return int(found[1]) if found else result.stdout + result.stderr


def test_the_tests_that_it_shows_pass(tmp_path):
    files = write_tests(DOCUMENT, tmp_path)
    shown = sum(len(re.findall(r"^def test_", path.read_text(), re.MULTILINE)) for path in tmp_path.iterdir())
    result = run_pytest(tmp_path, "-q")
    assert files >= 4
    assert passed(result) == shown + 1, "one of them runs twice"


@pytest.mark.parametrize("block", programs(DOCUMENT), ids=lambda block: f"line-{block.line}")
def test_the_programs_that_it_shows_run(block, tmp_path):
    result = run_python(tmp_path, "-c", block.text)
    assert result.returncode == 0, result.stderr
    assert "hello" in result.stdout


@pytest.mark.parametrize(
    ("place", "claim"),
    [(0, "kafka_broker.mode == 'classic'"), (1, "kafka_broker.addresses['CONTAINER'][0] == 'host.docker.internal'")],
)
def test_each_configuration_that_it_shows_is_one(tmp_path, place, claim):
    block = blocks(DOCUMENT, "ini")[place]
    (tmp_path / "pytest.ini").write_text(block.text, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(f"def test_it(kafka_broker): assert {claim}\n", encoding="utf-8")
    assert passed(run_pytest(tmp_path, "-q", "--strict-config")) == 1


def test_the_example_passes_in_a_folder_of_its_own(tmp_path):
    shutil.copytree(ROOT / "examples/orders", tmp_path / "my orders", ignore=shutil.ignore_patterns("__pycache__"))
    assert passed(run_pytest(tmp_path / "my orders", "-q")) == 6
