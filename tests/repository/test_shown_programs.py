"""Every program that a document shows is run or has a reason; docs/guides/testing.md has tests of its own."""

import queue
import re
import subprocess
import sys
import threading

import pytest

from pipeline_broker import EmbeddedBroker
from tests.documents import DOCUMENTS, PYTHON, ROOT, SHELL, blocks, programs, write_tests
from tests.plugin_runs import run_pytest, run_python

OWN_TESTS = ROOT / "docs/guides/testing.md"
ADDRESS = "127.0.0.1:9092"
RUN_SECONDS_MAX = 60
NO_WAIT = {"group.initial.rebalance.delay.ms": "0"}
SECURED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_root="...";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}
"""A broker that an administrator reaches as the document on access rules says."""
READERS_CODE = """
import builtins
from confluent_kafka import Producer

def announce(servers, topic, text):
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, text)
    producer.flush()

builtins.announce = announce
"""
"""What README.md leaves to the reader."""

pytestmark = pytest.mark.clients

PROGRAMS = [block for path in DOCUMENTS if path != OWN_TESTS for block in programs(path)]
WITH_TESTS = [
    path
    for path in DOCUMENTS
    if path != OWN_TESTS and any(block.is_test and not block.excuse for block in blocks(path, *PYTHON))
]


def first_line(program, folder):
    """What a program that never ends prints first; it is ended then."""
    process = subprocess.Popen([sys.executable, "-u", "-c", program], cwd=folder, stdout=subprocess.PIPE, text=True)
    lines = queue.SimpleQueue()
    with process:
        reader = threading.Thread(target=lambda: lines.put(process.stdout.readline()))
        reader.start()
        try:
            return lines.get(timeout=RUN_SECONDS_MAX)
        finally:
            process.kill()
            reader.join()


@pytest.mark.parametrize("block", [it for it in PROGRAMS if "while True:" not in it.text], ids=lambda it: it.place)
def test_a_program_that_a_document_shows_runs(block, tmp_path):
    with EmbeddedBroker(settings=SECURED if "SASL_PLAINTEXT" in block.text else NO_WAIT) as broker:
        program = block.text.replace(ADDRESS, broker.bootstrap_servers)
        if re.search(r"= broker\.", program):  # of a test, which has a broker
            exec(compile(program, block.place, "exec"), {"broker": broker})
            return
        result = run_python(tmp_path, "-c", program)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("block", [it for it in PROGRAMS if "while True:" in it.text], ids=lambda it: it.place)
def test_a_program_that_never_ends_prints(block, tmp_path, broker_process):
    """The broker publishes its timelines, which is what such programs read."""
    broker = broker_process(settings=["pipeline.timelines=true", "group.initial.rebalance.delay.ms=0"])
    assert first_line(block.text.replace(ADDRESS, broker.bootstrap), tmp_path).strip()


@pytest.mark.parametrize("document", WITH_TESTS, ids=lambda path: path.name)
def test_the_tests_that_a_document_shows_pass(document, tmp_path):
    write_tests(document, tmp_path)
    (tmp_path / "conftest.py").write_text(READERS_CODE, encoding="utf-8")
    result = run_pytest(tmp_path, "-q")
    assert result.returncode == 0, result.stdout + result.stderr


def test_what_is_said_to_be_run_elsewhere_is_run_by_a_file_that_there_is():
    excuses = [block.excuse for path in DOCUMENTS for block in blocks(path, *PYTHON, *SHELL) if block.excuse]
    runners = [excuse.removeprefix("run by ") for excuse in excuses if excuse.startswith("run by ")]
    assert [runner for runner in runners if not (ROOT / runner).is_file()] == []
    assert runners
