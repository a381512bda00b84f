import os
import re
import subprocess
from pathlib import Path

from tests.required import TOOLS

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def make(*arguments):
    # what a make above this one says of itself (make test) must not be taken for what this one was told
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60, env=environment)


def test_help_lists_every_target_with_what_it_does():
    phony = set(re.search(r"\.PHONY: (.*)", MAKEFILE)[1].split())
    listed = {line.split()[0]: line.split()[1:] for line in make("help").stdout.splitlines()}
    assert set(listed) == phony
    assert all(listed.values())


def test_help_comes_first():
    assert make().stdout == make("help").stdout


def test_the_debian_packages_are_those_that_tests_name():
    listed = re.search(r"SYSTEM_PACKAGES := (.*)", MAKEFILE)[1].split()
    assert listed == sorted(set(TOOLS.values()))


def test_an_old_python_is_refused_in_one_clear_line(tmp_path):
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    result = make("--silent", f"VENV={tmp_path / 'absent'}", f"PYTHON={old}", f"{tmp_path / 'absent'}/bin/python")
    assert result.returncode == 2
    assert result.stderr.splitlines()[0].startswith(f"Python 3.11 or newer is needed, and {old} is not")


def test_a_wheel_is_compiled_too_where_there_is_a_compiler(tmp_path):
    (tmp_path / "build.stamp").touch()
    recipe = make("--dry-run", f"VENV={tmp_path}", "--old-file", f"{tmp_path}/build.stamp", "MAKE=echo", "wheel").stdout
    assert "hatchling build --target wheel\n" in recipe
    assert "if command -v cc >/dev/null; then echo compiled && cp build/wheel/*.whl dist/" in recipe


def test_a_finished_installation_is_not_repeated(tmp_path):
    for stamp in ("build", "serve", "compare", "dev"):
        (tmp_path / f"{stamp}.stamp").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    for target in ("serve", "compare", "test", "wheel"):
        assert " install " not in make("--dry-run", f"VENV={tmp_path}", target).stdout
