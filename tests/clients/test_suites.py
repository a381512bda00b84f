"""A short part of the suites that `make suites` runs in full: it must reach what Apache Kafka reaches."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.clients, pytest.mark.xdist_group("suites")]  # both modes use what the first one installs
SUITES_DIR = Path(os.environ.get("SUITES_DIR", ROOT.parent / "shared" / "suites"))
PART = "^(aiokafka_admin|confluent_topic_configs|confluent_bad_config_is_refused|kafka_python_codec_lz4)$"


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_a_part_of_the_suites_reaches_what_kafka_reaches(tmp_path, mode):
    if not (SUITES_DIR / "python_clients.py").is_file():
        pytest.skip(f"no client suites in {SUITES_DIR}: set SUITES_DIR")
    command = [sys.executable, ROOT / "scripts" / "run_suites.py", "--suites-dir", SUITES_DIR, "--modes", mode]
    command += ["--out", tmp_path, f"python_clients {PART}"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
    said = "\n".join(path.read_text(errors="replace")[-3000:] for path in tmp_path.glob("*.out"))
    assert found.returncode == 0, found.stdout + said
    assert "4 of 4" in found.stdout
