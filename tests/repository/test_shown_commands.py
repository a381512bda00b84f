"""Every command that a document shows is run, or has a reason why not; its options are checked elsewhere.

The tests run the text of the document. They replace only addresses, ports and folders of the system, shorten loads and
the delay of a store, interrupt commands that follow a topic, and end servers once they say that they listen. A command
that needs a shell gets one. A plain command is called in this process, which is faster; other tests start programs.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from pipeline_broker import EmbeddedBroker
from pipeline_broker.cli import main
from pipeline_broker.measure.experiment import compare as compare_module
from pipeline_broker.measure.experiment import sweep_run as sweep_module
from pipeline_broker.measure.experiment.modes import COMPARED_MODES
from pipeline_broker.measure.experiment.plan import PROFILES
from tests.documents import DOCUMENTS, ROOT, SHELL, blocks, commands

SECONDS_MAX = 60
ADDRESS = "127.0.0.1:9092"
ELSEWHERE = {
    r"^make ": "a target of the Makefile takes minutes, or is these tests; test_documents looks for it",
    r"^\.ci/run": "it runs these tests",
    r"pipeline-broker report\b": "it starts a Spark session; tests/spark_analysis makes pages with one of its own",
    r"^kafka-[a-z-]+\.sh ": "Apache Kafka's tools are run by the tests that need Java",
}
"""What is never run, and why; a block that is not run says so above itself (see tests/documents.py)."""
PREPARED = (
    "topics create orders --partitions 2 --config retention.ms=86400000",
    "topics create payments",
    "produce orders --json records.jsonl",
    "groups reset-offsets billing --topic orders --to beginning --execute",
    "groups reset-offsets walk --topic orders --to beginning --execute",
    "users set ada --password-file ada",
    "quotas set --user ada --client billing request_percentage=50",
    "quotas set --client billing producer_byte_rate=1048576",
    "quotas set --user ada --client-defaults request_percentage=50",
)
"""What the commands find in the cluster."""
PREPARED_DIRECTORY = (
    "topics create users --config cleanup.policy=compact",
    "produce users -K : orders.txt",
    "produce events orders.txt",
    "produce orders -K : orders.txt",
)
"""What they find in a data directory whose broker runs."""
FILES = {
    "orders.txt": "N14228:EWR to IAH\nN24211:LGA to IAH\n",
    "orders.jsonl": '{"key": "N14228", "value": "EWR to IAH"}\n',
    "records.jsonl": "".join(f'{{"key": "{number}", "value": "order {number}"}}\n' for number in range(20)),
    "server.properties": "num.partitions=2\n",
    "ada": "secret\n",
    "cat.png": "a picture",
}
IN_PROCESS = re.compile(r"pipeline-broker (?!load)[^|<>]*")
FOLDERS = (".config/fish/completions", "var/lib/pipeline")

pytestmark = pytest.mark.xdist_group("shown-commands")

BLOCKS = [block for path in DOCUMENTS for block in blocks(path, *SHELL) if not block.excuse]
COMMANDS = [(block, command) for block in BLOCKS for command in commands(block)]


def kind(command):
    """How a command is run; None where it is not."""
    text = command.text
    if any(re.search(pattern, text) for pattern in ELSEWHERE):
        return None
    if command.shown and command.shown[0].startswith("Error: "):
        return None  # test_commands_document holds it against what is shown
    if "pipeline-broker serve" in text:
        return "serves"
    if "pipeline-broker compare" in text:
        return "compares"
    if "--follow" in text:
        return "follows"
    return "directory" if re.search(r"\bdata\b|requests\.jsonl", text) else "cluster"


COMPARISONS = sorted({it.text.removeprefix(".venv/bin/") for _, it in COMMANDS if kind(it) == "compares"})


def of_kind(name):
    found = [pytest.param(block, it, id=f"{block.place}: {it.text}") for block, it in COMMANDS if kind(it) == name]
    assert found
    return found


def as_run(text, address):
    """The command, with addresses and folders of this test."""
    text = (
        text.replace(".venv/bin/", "")
        .replace("/var/lib/", "var/lib/")
        .replace("/run/secrets/", "")
        .replace(ADDRESS, address)
    )
    if "pipeline-broker load" in text:
        text += " --seconds 0.3 --warmup 0.1"
    return text if shutil.which("jq") else re.sub(r" \| jq .*", "", text)


def folder_of(path):
    """A home and working folder with what the commands name."""
    for name, content in FILES.items():
        (path / name).write_text(content, encoding="utf-8")
    for name in FOLDERS:
        (path / name).mkdir(parents=True)
    program = path / "bin" / "pipeline-broker"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pipeline_broker "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return path


def environment(folder, address):
    return {
        **os.environ,
        "HOME": str(folder),
        "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PIPELINE_BROKER_BOOTSTRAP_SERVER": address,
    }


def run(text, folder, address):
    """What a command prints, which must end well."""
    text = as_run(text, address)
    if IN_PROCESS.fullmatch(text):
        return call(text.removeprefix("pipeline-broker "), folder, address)
    result = subprocess.run(
        ["sh", "-e", "-c", text],
        cwd=folder,
        env=environment(folder, address),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    assert result.returncode == 0, f"{text}\n{result.stdout}{result.stderr}"
    return result.stdout


def call(line, folder, address):
    with contextlib.chdir(folder):
        result = CliRunner().invoke(main, shlex.split(line), env={"PIPELINE_BROKER_BOOTSTRAP_SERVER": address})
    assert result.exit_code == 0, f"{line}\n{result.output}"
    return result.stdout


def shape(line):
    """A line without its numbers and ids."""
    return re.sub(r"\([\w-]{22}\)|\b[0-9a-f]{16}\b|\d[\d,.]*", "#", line)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A broker with what the commands name, and the moment to which it is put back."""
    settings = {
        "num.partitions": 2,
        "group.initial.rebalance.delay.ms": 0,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with EmbeddedBroker(settings=settings) as broker:
        folder = folder_of(tmp_path_factory.mktemp("prepared"))
        for line in PREPARED:
            call(line, folder, broker.bootstrap_servers)
        yield broker, broker.snapshot()


@pytest.fixture
def prepared_broker(cluster):
    broker, prepared = cluster
    broker.restore(prepared)
    return broker


@pytest.mark.parametrize(
    "block", [it for it in BLOCKS if "cluster" in map(kind, commands(it))], ids=lambda it: it.place
)
def test_commands_that_ask_a_cluster_end_well(block, prepared_broker, tmp_path):
    if "topics create orders" in block.text:
        prepared_broker.delete_topic("orders")
    folder = folder_of(tmp_path)
    for command in commands(block):
        if kind(command) == "cluster":
            printed = run(command.text, folder, prepared_broker.bootstrap_servers)
            if "topics describe" in command.text and command.shown:
                assert shape(printed.splitlines()[0]) == shape(command.shown[0])


@pytest.mark.parametrize(("block", "command"), of_kind("follows"))
def test_a_command_that_follows_prints_what_is_there_and_ends_when_it_is_interrupted(
    block, command, prepared_broker, tmp_path
):
    del block
    address = prepared_broker.bootstrap_servers
    folder = folder_of(tmp_path)
    process = subprocess.Popen(
        ["env", "--default-signal=INT", "sh", "-c", f"exec {as_run(command.text, address)}"],
        cwd=folder,
        env=environment(folder, address),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert "order" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS_MAX) == 130


def test_commands_about_a_data_directory_end_well_while_its_broker_runs(broker_process, tmp_path):
    folder = folder_of(tmp_path)
    broker = broker_process(data=folder / "data", arguments=["--request-log", str(folder / "requests.jsonl")])
    for line in PREPARED_DIRECTORY:
        call(line, folder, broker.bootstrap)
    for _, command in (parameter.values for parameter in of_kind("directory")):
        printed = run(command.text, folder, broker.bootstrap)
        if re.search("faults|timelines", command.text):
            assert shape(printed.splitlines()[0]) == shape(command.shown[0])


@pytest.fixture
def begun_experiments(monkeypatch):
    """Let experiments end after two short runs of one of our brokers."""

    def begin(groups):
        first = next(group for group in groups if {side.mode for side in group.sides} <= set(COMPARED_MODES))
        return [attrs.evolve(first, runs=first.runs[:2])]

    for module, name in ((compare_module, "plan"), (sweep_module, "plan_sweep")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, real=real: begin(real(*given)))
    for name, profile in PROFILES.items():
        monkeypatch.setitem(PROFILES, name, attrs.evolve(profile, run_s=0.1, warmup_s=0.02, open_s=0.1))
    monkeypatch.setattr(compare_module, "fetch_jars", lambda: None)


@pytest.mark.usefixtures("begun_experiments")
@pytest.mark.parametrize("text", COMPARISONS)
def test_a_comparison_that_is_shown_begins_and_prints_its_table(text, tmp_path):
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    line = re.sub(r"--store-delay \S+", "--store-delay 1ms", text.removeprefix("pipeline-broker "))
    printed = call(line if "--no-report" in line else f"{line} --no-report", tmp_path, ADDRESS)
    assert re.search(r"^ *1 x 1 |^.*requests/s", printed, re.MULTILINE), printed


def test_every_command_that_serves_says_that_it_listens(tmp_path):
    texts = {command.text for _, command in (parameter.values for parameter in of_kind("serves"))}
    processes = []
    for number, text in enumerate(sorted(texts)):
        (tmp_path / str(number)).mkdir()
        folder = folder_of(tmp_path / str(number))
        text = re.sub(r"(--metrics|--dashboard) \d+", r"\1 0", re.sub(r"--port \d+", "", text))
        command = ["sh", "-c", f"exec {as_run(text, ADDRESS)} --port 0"]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        processes.append((text, subprocess.Popen(command, cwd=folder, env=environment(folder, ADDRESS), **streams)))
    told = {}
    for text, process in processes:
        with process:
            line = process.stdout.readline()
            process.terminate()
            told[text] = line, process.communicate(timeout=SECONDS_MAX)[1], process.returncode
    wrong = {text: it for text, it in told.items() if not it[0].startswith("listening on 127.0.0.1:") or it[2] != 0}
    assert wrong == {}
