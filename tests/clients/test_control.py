"""Tests in Go, Java and JavaScript control a broker: a rule, a wait and a reset, each with a client of its language.

The programs are in the folder `control`. Their packages are fetched once, into the caches of the user.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kafka_tools import class_path, java_command, require_kafka

pytestmark = pytest.mark.clients

PROGRAMS = Path(__file__).parent / "control"
CONTROL_LINE = re.compile(r"^control on (\S+) with the token in (.+)$", re.MULTILINE)
KAFKAJS = "kafkajs@2.2.4"
FETCH_SECONDS_MAX = 300
SECONDS_MAX = 60


def program(name, version):
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name} {version}, from its own site, because Debian's may be too old")
    return path


def fetched(command, **options):
    """Run a command that may fetch packages, or skip the test with its last line."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False, **options)
    if done.returncode:
        pytest.skip(f"{Path(command[0]).name} failed: {done.stderr.strip().splitlines()[-1:]}")


def in_go(directory):
    go = program("go", "1.26 or newer")
    fetched([go, "build", "-o", directory / "control", "."], cwd=PROGRAMS)
    return [directory / "control"], {}


def in_java(directory):
    require_kafka("javac")
    return [*java_command(directory), "-cp", class_path(), PROGRAMS / "Control.java"], {}


def in_javascript(directory):
    node, npm = program("node", "18 or newer"), program("npm", "9 or newer")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pipeline-broker"
    modules = cache / KAFKAJS.replace("@", "-")
    if not modules.is_dir():
        fetched([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", directory, KAFKAJS])
        shutil.copytree(directory / "node_modules", cache / f".{os.getpid()}")
        try:
            (cache / f".{os.getpid()}").rename(modules)
        except OSError:  # another process was faster
            shutil.rmtree(cache / f".{os.getpid()}")
    return [node, PROGRAMS / "control.js"], {"NODE_PATH": str(modules)}


@pytest.mark.timeout(FETCH_SECONDS_MAX + SECONDS_MAX)
@pytest.mark.parametrize("command_of", [in_go, in_java, in_javascript], ids=lambda each: each.__name__)
def test_a_program_of_another_language_makes_its_client_fail_and_resets_the_broker(
    broker_process, tmp_path, command_of
):
    command, environment = command_of(tmp_path)
    broker = broker_process(arguments=["--control", "0"])
    url, token = CONTROL_LINE.search(broker.stderr).groups()
    environment |= {"BOOTSTRAP_SERVERS": broker.bootstrap, "CONTROL_URL": url}
    environment |= {"CONTROL_TOKEN": Path(token).read_text(encoding="ascii").strip()}
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr
