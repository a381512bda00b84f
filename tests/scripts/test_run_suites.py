"""Each suite is compared with Apache Kafka's results in one line, and a failing one does not stop the others."""

import json
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from scripts import run_suites
from scripts.run_suites import (
    DEFAULT,
    KAFKA,
    ONE_BROKER_ONLY,
    SUITES,
    Brokers,
    Row,
    broker_command,
    compared,
    java_class_path,
    running,
    table,
    wanted_suites,
)
from tests.apis.wire_client import WireClient
from tests.conftest import ROOT
from tests.kafka_tools import require_kafka, short_java
from tests.required import require_tool
from tests.short_java import SHORT_JAVAC

START_SECONDS_MAX = 60.0
COMPARE = "print('compared')\n"
SUITE = """#!/bin/sh
[ "$3" = broken ] && exit 3
echo '{"passed": ["a"], "failed": ["b"], "skipped": []}' > "$2"
exit 1
"""


@pytest.fixture
def suites_dir(tmp_path):
    """A folder of suites, one of which sends nothing to its broker."""
    folder = tmp_path / "suites"
    (folder / "baseline").mkdir(parents=True)
    (folder / "compare.py").write_text(COMPARE)
    (folder / "kafka_python.sh").write_text(SUITE)
    (folder / "kafka_python.sh").chmod(0o755)
    (folder / "baseline" / "kafka_python.json").write_text(
        json.dumps({"passed": ["a", "b", "c"], "failed": [], "skipped": []})
    )
    return folder


def run(tmp_path, *arguments):
    command = [sys.executable, ROOT / "scripts" / "run_suites.py", "--out", tmp_path / "out", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_every_suite_runs_in_every_mode_and_the_table_lists_missed_tests(tmp_path, suites_dir):
    found = run(tmp_path, "--suites-dir", suites_dir, "kafka_python broken", "kafka_python")
    assert found.returncode == 1
    lines = found.stdout.splitlines()
    for mode in ("classic", "pipelined"):
        assert any(line.startswith("kafka_python") and mode in line and "did not run" in line for line in lines)
        assert any(line.split() == ["kafka_python", mode, "1", "of", "3", "2", "b,", "c"] for line in lines)
        assert (tmp_path / "out" / f"{mode}-kafka_python.compared").read_text() == "compared\n"


def test_a_part_of_a_suite_counts_only_its_own_tests(tmp_path, suites_dir):
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"passed": ["a"], "failed": [], "skipped": []}))
    row = compared(suites_dir, "kafka_python", "classic", results, {}, is_part=True)
    assert row == Row("kafka_python", "classic", "1 of 1", "0", "")


def test_a_masked_test_does_not_count(tmp_path, suites_dir):
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"passed": ["a"], "failed": ["b", "c"], "skipped": []}))
    row = compared(suites_dir, "kafka_python", "classic", results, {"c": "reason"}, is_part=False)
    assert row == Row("kafka_python", "classic", "1 of 2", "1", "b")
    assert ONE_BROKER_ONLY.keys() <= SUITES.keys()


@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_the_java_tools_have_the_classes_that_kafka_moved(tmp_path, monkeypatch, version):
    require_tool("javac")
    monkeypatch.setattr(run_suites, "VERSION", version)
    moved = version == "4.4.0"
    utils = "org.apache.kafka.common.utils" + moved * ".internals"

    def folder(name):
        (tmp_path / name).mkdir(exist_ok=True)
        return tmp_path / name

    def java_file(name, text):
        (folder("sources") / f"{name}.java").write_text(text)
        return tmp_path / "sources" / f"{name}.java"

    sources = [
        java_file(
            "ConfigCommand",
            f"package {'org.apache.kafka.tools' if moved else 'kafka.admin'}; public class ConfigCommand {{"
            " public static void main(String[] arguments) { System.out.print(arguments[0]); } }",
        ),
        java_file(
            "Exit",
            f"package {utils}; public class Exit {{ public static void exit(int status) {{ System.exit(status); }} }}",
        ),
        java_file(
            "KafkaThread",
            f"package {utils}; public class KafkaThread extends Thread {{"
            " public KafkaThread(String name, Runnable work, boolean daemon) { super(work, name); }"
            " public static KafkaThread nonDaemon(String name, Runnable work)"
            " { return new KafkaThread(name, work, false); } }",
        ),
    ]
    subprocess.run([*SHORT_JAVAC, "-d", folder("compiled"), *sources], check=True)
    with zipfile.ZipFile(folder("kafka") / "tools.jar", "w") as jar:
        for compiled in (tmp_path / "compiled").rglob("*.class"):
            jar.write(compiled, compiled.relative_to(tmp_path / "compiled"))
    for name in ("streams-test.jar", "logging.jar"):
        zipfile.ZipFile(folder("of-tests") / name, "w").close()
    oracle = tmp_path / "kafka_oracle.sh"
    oracle.write_text(f"#!/bin/sh\necho 'broker/*:{tmp_path}/of-tests/*'\n")
    oracle.chmod(0o755)
    monkeypatch.setattr(run_suites, "fetch_jars", lambda name="kafka": folder(name))
    class_path = java_class_path(tmp_path, tmp_path / "classes")
    assert class_path.endswith(f"{tmp_path}/kafka-streams/*:{tmp_path}/of-tests/streams-test.jar")
    command = ["java", "-cp", class_path, "kafka.admin.ConfigCommand", "--describe"]
    assert subprocess.check_output(command, text=True) == "--describe"
    of_4_3 = java_file(
        "Program",
        "import org.apache.kafka.common.utils.*; public class Program {"
        ' public static void main(String[] none) { KafkaThread.nonDaemon("any", () -> Exit.exit(7)).start(); } }',
    )
    no_sources = ("-sourcepath", folder("program"))
    subprocess.run([*SHORT_JAVAC, "-cp", class_path, *no_sources, "-d", folder("program"), of_4_3], check=True)
    command = ["java", "-cp", f"{tmp_path}/program:{class_path}", "Program"]
    assert subprocess.run(command, check=False).returncode == 7


def test_missing_suites_are_skipped(tmp_path):
    found = run(tmp_path, "--suites-dir", tmp_path)
    assert (found.returncode, "skipped" in found.stdout) == (0, True)


def test_an_unknown_suite_gives_a_one_line_error(tmp_path, suites_dir):
    found = run(tmp_path, "--suites-dir", suites_dir, "no_such_suite")
    assert found.returncode == 1
    assert found.stderr.startswith("unknown suite 'no_such_suite': choose from python_clients")


def test_the_shorter_suites_are_the_default():
    assert [name for name, _ in wanted_suites([])] == list(DEFAULT)
    assert set(DEFAULT) <= set(SUITES)
    assert wanted_suites(["librdkafka-quick 0011,0012"]) == [("librdkafka-quick", "0011,0012")]


def test_columns_of_the_table_are_aligned():
    rows = [Row("a", "classic", "1 of 1", "0"), Row("longer", "pipelined", "10 of 12", "2", "x, y")]
    head, first, second = table(rows).splitlines()
    assert head.index("mode") == first.index("classic") == second.index("pipelined")
    column = head.index("missed")
    assert (first[column:], second[column:].split()) == ("0", ["2", "x,", "y"])


def test_with_a_store_each_broker_has_its_own_prefix():
    on_disk = broker_command("classic", 9092, Path("/tmp/suites-x"), Brokers())
    on_objects = broker_command("classic", 9092, Path("/tmp/suites-x"), Brokers(store="s3://bucket/suites"))
    assert "--store" not in on_disk
    added = [*on_disk, "--store", "s3://bucket/suites/suites-x", "--wal", "objects", "--set", "wal.puts.per.second=0"]
    assert sorted(on_objects) == sorted(added)


@pytest.mark.parametrize("mode", ["pipelined", pytest.param(KAFKA, marks=pytest.mark.clients)])
def test_several_brokers_are_one_cluster(tmp_path, mode, monkeypatch):
    if mode == KAFKA:
        require_kafka()
        monkeypatch.setenv("JDK_JAVA_OPTIONS", short_java())
    (tmp_path / "data").mkdir()
    deadline = time.monotonic() + START_SECONDS_MAX
    with running(mode, Brokers(3), tmp_path / "data", tmp_path / "log") as ports:
        while any(brokers_known_to(port) != dict(enumerate(ports, 1)) for port in ports):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def brokers_known_to(port):
    with WireClient("127.0.0.1", port) as client:
        brokers = client.ask(MetadataRequest(topics=[]), MetadataResponse, 12).brokers
    return {broker.node_id: broker.port for broker in sorted(brokers, key=lambda it: it.node_id)}
