"""Repeated runs of the pytest plugin with all clients, on two workers, in random order."""

import os
import random
import re
import shutil
import textwrap
import time

import pytest

from tests.conftest import CAMPAIGN
from tests.documents import write_tests
from tests.forks import ROOT
from tests.plugin_runs import FASTSTREAM_CLIENTS, IN_BOTH_MODES, THREE_CLIENTS, Tree, faststream_test

RUNS = int(os.environ.get("RUNS", "1"))
EXAMPLES = ("orders", "orders_avro")
LEFT_BY_KAFKA_PYTHON = ("-W", "ignore:unclosed <socket:ResourceWarning")
"""A client of kafka-python 3.0 that is closed while it connects leaves the socket to the collector, in a later test."""
IN_DRAWN_ORDER = """
import random

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    random.Random({seed}).shuffle(items)  # the same on every worker
"""


def write_suite(folder):
    """Write the files that users run (clients, tests of the guide, examples); return the number of tests."""
    both_modes = textwrap.dedent(IN_BOTH_MODES)
    (folder / "test_clients.py").write_text(textwrap.dedent(THREE_CLIENTS) + both_modes, encoding="utf-8")
    for client in FASTSTREAM_CLIENTS:
        (folder / f"test_{client}.py").write_text(faststream_test(client), encoding="utf-8")
    write_tests(ROOT / "docs/guides/testing.md", folder)
    for name in EXAMPLES:
        shutil.copytree(ROOT / "examples" / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.ini"))
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {' '.join(EXAMPLES)}\n", encoding="utf-8")
    tests = both = 0
    for path in folder.rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        found = len(re.findall(r"^def test_", text, re.MULTILINE))
        tests += found
        both += found if both_modes in text else text.count('@pytest.mark.kafka(mode=["classic", "pipelined"]')
    return tests + both


@pytest.mark.clients
@pytest.mark.plugin_runs
def test_all_clients_work_under_xdist_in_any_order_in_every_run(tmp_path, record_property):
    """Repeats RUNS times. A failed run is reported with its output, and does not stop the others."""
    tree = Tree(tmp_path)
    tests = write_suite(tree.folder)
    failed, load, longest_s = [], 0.0, 0.0
    for number in range(1, RUNS + 1):
        seed, begun_s = random.getrandbits(32), time.monotonic()
        outcome = tree({"conftest.py": IN_DRAWN_ORDER.format(seed=seed)}, "-q", "-n", "2", *LEFT_BY_KAFKA_PYTHON)
        longest_s = max(longest_s, time.monotonic() - begun_s)
        load = max(load, os.getloadavg()[0])
        if outcome.counts() != {"passed": tests}:
            failed.append(f"run {number}, seed {seed}:\n{outcome.text}")
    record_property(
        CAMPAIGN,
        f"{RUNS} runs of {tests} tests, all clients in both modes on two workers in random order: {len(failed)} "
        f"failed; the longest took {longest_s:.1f} s; load of the machine up to {load:.1f}",
    )
    assert failed == [], "\n".join(failed)
