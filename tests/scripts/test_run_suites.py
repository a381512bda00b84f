"""Suites are compared with Apache Kafka's results, one line each, and none of them ends the others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.run_suites import DEFAULT, SUITES, Row, broker_command, compared, table, wanted_suites
from tests.conftest import ROOT

COMPARE = "print('compared')\n"
WITH_BROKER = '#!/bin/sh\nshift 2\nexec "$@"\n'
SUITE = """#!/bin/sh
[ "$3" = broken ] && exit 3
echo '{"passed": ["a"], "failed": ["b"], "skipped": []}' > "$2"
exit 1
"""


@pytest.fixture
def suites_dir(tmp_path):
    """A folder of suites of which one runs, without a broker."""
    folder = tmp_path / "suites"
    (folder / "baseline").mkdir(parents=True)
    (folder / "compare.py").write_text(COMPARE)
    for name, text in (("with_broker.sh", WITH_BROKER), ("kafka_python.sh", SUITE)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "baseline" / "kafka_python.json").write_text(
        json.dumps({"passed": ["a", "b", "c"], "failed": [], "skipped": []})
    )
    return folder


def run(tmp_path, *arguments):
    command = [sys.executable, ROOT / "scripts" / "run_suites.py", "--out", tmp_path / "out", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_every_suite_runs_in_every_mode_and_the_table_says_what_is_missed(tmp_path, suites_dir):
    found = run(tmp_path, "--suites-dir", suites_dir, "kafka_python broken", "kafka_python")
    assert found.returncode == 1
    lines = found.stdout.splitlines()
    for mode in ("classic", "pipelined"):
        assert any(line.startswith("kafka_python") and mode in line and "did not run" in line for line in lines)
        assert any(line.split() == ["kafka_python", mode, "1", "of", "3", "2", "b,", "c"] for line in lines)
        assert (tmp_path / "out" / f"{mode}-kafka_python.compared").read_text() == "compared\n"


def test_of_a_part_only_what_was_tried_counts(tmp_path, suites_dir):
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"passed": ["a"], "failed": [], "skipped": []}))
    row = compared(suites_dir, "kafka_python", "classic", results, is_part=True)
    assert row == Row("kafka_python", "classic", "1 of 1", "0", "")


def test_without_suites_nothing_is_run(tmp_path):
    found = run(tmp_path, "--suites-dir", tmp_path)
    assert (found.returncode, "skipped" in found.stdout) == (0, True)


def test_a_suite_that_is_not_known_is_said_in_one_line(tmp_path, suites_dir):
    found = run(tmp_path, "--suites-dir", suites_dir, "no_such_suite")
    assert found.returncode == 1
    assert found.stderr.startswith("there is no suite 'no_such_suite'; there are python_clients")


def test_all_but_the_longest_suites_are_run_unless_some_are_named():
    assert [name for name, _ in wanted_suites([])] == list(DEFAULT)
    assert set(DEFAULT) <= set(SUITES)
    assert wanted_suites(["librdkafka-quick 0011,0012"]) == [("librdkafka-quick", "0011,0012")]


def test_columns_of_the_table_are_aligned():
    rows = [Row("a", "classic", "1 of 1", "0"), Row("longer", "pipelined", "10 of 12", "2", "x, y")]
    head, first, second = table(rows).splitlines()
    assert head.index("mode") == first.index("classic") == second.index("pipelined")
    column = head.index("missed")
    assert (first[column:], second[column:].split()) == ("0", ["2", "x,", "y"])


def test_with_a_store_each_broker_keeps_everything_below_a_prefix_of_its_own():
    on_disk = broker_command("classic", 9092, Path("/tmp/suites-x"), None)
    on_objects = broker_command("classic", 9092, Path("/tmp/suites-x"), "s3://bucket/suites")
    assert "--store" not in on_disk
    in_store = on_disk.replace(
        "--data /tmp/suites-x", "--data /tmp/suites-x --store s3://bucket/suites/suites-x --wal objects"
    )
    assert on_objects == f"{in_store} --set wal.puts.per.second=0"
