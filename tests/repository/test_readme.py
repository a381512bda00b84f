"""The first walk of README.md, taken."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import blocks

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.clients
@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_the_program_of_the_first_walk_prints_what_it_produced(broker_process, mode):
    broker = broker_process(mode=mode, settings=["group.initial.rebalance.delay.ms=0"])
    (program,) = [block.text for block in blocks(ROOT / "README.md", "python") if not block.is_test]
    assert "127.0.0.1:9092" in program
    result = subprocess.run(
        [sys.executable, "-c", program.replace("127.0.0.1:9092", broker.bootstrap)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (result.returncode, result.stdout) == (0, "b'EWR to IAH'\n"), result.stderr


def test_the_ready_line_is_the_one_shown(broker_process):
    broker = broker_process()
    shown = re.search(r"^listening on .*$", README, re.MULTILINE)[0]
    expected = shown.replace("127.0.0.1:9092", broker.bootstrap).replace("data=data", f"data={broker.data}")
    assert broker.ready_line == expected
