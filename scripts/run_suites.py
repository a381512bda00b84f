"""Run third-party client suites, each against fresh brokers, and compare them with Apache Kafka.

    scripts/run_suites.py --suites-dir DIR [--modes "classic pipelined"] [--brokers N [--bootstrap ID]] [--store URL]
                          [--out DIR] ["SUITE [ARGUMENT]"...]

A suite is one of `SUITES`, or a part of it: ARGUMENT is passed to its program after the file of results, such as a
pattern of names. Results are written to out/suites/MODE-SUITE.json, with the output of suite and brokers beside them. A
failing suite does not stop the others, and one table summarizes all of them. The exit code is 1 if a test fails that
passes on Apache Kafka. With a store, which must already run, each broker keeps all data there, below its own prefix.

With several brokers, tests of `ONE_BROKER_ONLY` do not count. The mode `kafka` runs Apache Kafka's brokers instead, to
learn whether several of them pass a test.
"""

import argparse
import contextlib
import functools
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pipeline_broker.measure.experiment.kafka_process import VERSION, KafkaSettings, fetch_jars

ROOT = Path(__file__).parent.parent
JAVA_TOOLS = "java_tools"
SUITES = {
    "python_clients": ("python_clients.py", ""),
    "kafka_python": ("kafka_python.sh", ""),
    "librdkafka-smoke": ("librdkafka.sh", "smoke"),
    "librdkafka-quick": ("librdkafka.sh", "quick"),
    "librdkafka-long": ("librdkafka.sh", "long"),
    "librdkafka-share": ("librdkafka.sh", "share"),
    JAVA_TOOLS: ("java_tools.py", ""),
    "spark_connector": ("spark_connector.py", ""),
}
"""Suites by name, which is also that of Kafka's results: the program, and its argument for the whole suite."""
DEFAULT = ("python_clients", "kafka_python", "librdkafka-smoke", "librdkafka-quick", "java_tools", "spark_connector")
SETTINGS = {
    "num.partitions": "4",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
"""Settings of the broker that the suites expect; see their README."""
STORE_SETTINGS = {"wal.puts.per.second": "0"}
"""Settings with a store: librdkafka's test 0174 sends 5,000 records one at a time, within 120 s."""
KAFKA = "kafka"
ONE_BROKER_ONLY: Mapping[str, Mapping[str, str]] = {
    "java_tools": {
        "client_compatibility": "fails on three Kafka brokers too: it expects to see one node",
        "log_dirs": "fails on three Kafka brokers too: it expects the partition on the first broker of the answer",
        "share_group": "ours only: share groups get COORDINATOR_NOT_AVAILABLE in a cluster",
    },
    "kafka_python": {
        "test_admin_integration::test_alter_partition_reassignments": (
            "ours only: it wants replicas on all brokers, and brokers of a machine keep one copy"
        ),
        "test_admin_integration::test_delete_records": (
            "fails on three Kafka brokers too: it expects records of several leaders in one poll"
        ),
    },
    "librdkafka-quick": dict.fromkeys(
        ("0081_admin/CreateTopics", "0081_admin/CreatePartitions"),
        "ours only: it creates topics with as many replicas as brokers, and brokers of a machine keep one copy",
    ),
}
"""Tests by suite that our brokers cannot pass if they are several, with the reason and the result of Kafka's."""
OLD_NAMES = {
    "ConfigCommand": """
package kafka.admin;

public class ConfigCommand {
    public static void main(String[] arguments) throws Exception {
        org.apache.kafka.tools.ConfigCommand.main(arguments);
    }
}
""",
    "Exit": """
package org.apache.kafka.common.utils;

public class Exit extends org.apache.kafka.common.utils.internals.Exit {}
""",
    "KafkaThread": """
package org.apache.kafka.common.utils;

public class KafkaThread extends org.apache.kafka.common.utils.internals.KafkaThread {
    private KafkaThread(String name, Runnable work) {
        super(name, work, false);
    }

    public static KafkaThread nonDaemon(String name, Runnable work) {
        return new KafkaThread(name, work);
    }
}
""",
}
"""Classes by name that the suite of Java tools and Kafka's test programs use, and that Kafka 4.4 has moved."""
FIRST_WITH_MOVED_CLASSES = (4, 4)
LAST_WITH_TEST_JARS = "4.3.1"
"""The last release of Kafka with the jars of its test programs, which the suite of Java tools runs with other jars."""
PORTS = range(15_000, 30_000)
"""Ports outside of the range from which the system takes ports for connections."""
READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0


class Row(NamedTuple):
    suite: str
    mode: str
    reached: str
    failed: str
    note: str = ""


class Brokers(NamedTuple):
    """The brokers of each suite: their number, the one that its clients know first, and the store if they have one."""

    count: int = 1
    bootstrap: int = 1
    store: str | None = None


def free_ports(count: int) -> list[int]:
    """Return free ports that follow each other."""
    dice = random.SystemRandom()
    while True:
        first = dice.choice(PORTS)
        ports = list(range(first, first + count))
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in ports:
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return ports


def broker_command(mode: str, port: int, data: Path, brokers: Brokers) -> list[str]:
    """Return the command of our brokers for the suites."""
    command = [sys.executable, "-m", "pipeline_broker", "serve", "--mode", mode]
    command += ["--port", str(port), "--data", str(data)]
    settings = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    if brokers.count > 1:
        command += ["--brokers", str(brokers.count)]
    if brokers.store is not None:
        command += ["--store", f"{brokers.store}/{data.name}", "--wal", "objects"]
        settings |= STORE_SETTINGS
    return command + [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


@contextlib.contextmanager
def running(mode: str, brokers: Brokers, data: Path, log: Path) -> Iterator[list[int]]:
    """Run brokers, and return their ports once all of them accept connections."""
    if mode == KAFKA:
        with running_kafka(brokers.count, data) as ports:
            yield ports
        return
    ports = free_ports(brokers.count)
    with log.open("wb") as output:
        command = broker_command(mode, ports[0], data, brokers)
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not all(accepts(port) for port in ports):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the brokers did not start: see {log}")
            time.sleep(0.1)
        yield ports
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()  # its brokers end with it
            process.wait()


@contextlib.contextmanager
def running_kafka(count: int, data: Path) -> Iterator[list[int]]:
    """Run Apache Kafka; the first node is the controller, too."""
    settings, nodes, controller = tuple(SETTINGS.items()), [], None
    with contextlib.ExitStack() as stack:
        for node_id in range(1, count + 1):
            of_node = KafkaSettings(
                KAFKA, data / str(node_id), node_id=node_id, controller=controller, settings=settings
            )
            nodes.append(of_node.start())
            stack.callback(nodes[-1].stop)
            nodes[-1].wait_ready()
            controller = nodes[-1].controller
        yield [node.port for node in nodes]


def accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@functools.cache
def java_class_path(suites_dir: Path, target: Path) -> str:
    """Return the class path of Kafka's tools, with moved classes under their old names in the folder `target`."""
    command = [str(suites_dir / "kafka_oracle.sh"), "classpath", "streams"]
    with_tests = {**os.environ, "KAFKA_VERSION": LAST_WITH_TEST_JARS}
    jars = subprocess.check_output(command, env=with_tests, text=True).strip().rpartition(":")[2]
    # No other jars of that release: a second implementation of SLF4J prints warnings, which the suite reads as output.
    tests = sorted(map(str, Path(jars.removesuffix("/*")).glob("*-test.jar")))
    found = ":".join([f"{fetch_jars()}/*", f"{fetch_jars('kafka-streams')}/*", *tests])
    if tuple(map(int, VERSION.split(".")[:2])) < FIRST_WITH_MOVED_CLASSES:
        return found
    target.mkdir(exist_ok=True)
    sources = [target / f"{name}.java" for name in OLD_NAMES]
    for source in sources:
        source.write_text(OLD_NAMES[source.stem])
    subprocess.run(["javac", "-cp", found, "-d", target, *sources], check=True)
    return f"{target}:{found}"


def run(suites_dir: Path, out: Path, mode: str, suite: str, argument: str, brokers: Brokers) -> Row:
    program, everything = SUITES[suite]
    stem = f"{mode}-{suite}"
    results, log = out / f"{stem}.json", out / f"{stem}.out"
    results.unlink(missing_ok=True)
    data = Path(tempfile.mkdtemp(prefix="suites-"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    print(f"{suite} {argument}".rstrip() + f", {mode}", flush=True)
    try:
        with log.open("wb") as output, running(mode, brokers, data, out / f"{stem}.log") as ports:
            command: list[str | Path] = [sys.executable] if program.endswith(".py") else []
            command += [suites_dir / program, f"127.0.0.1:{ports[brokers.bootstrap - 1]}", results]
            command += filter(None, [argument or everything])
            environment = {**os.environ, "PATH": path, "KAFKA_VERSION": VERSION}
            if suite == JAVA_TOOLS:
                environment["JAVA_TOOLS_CLASSPATH"] = java_class_path(suites_dir, out / "classes")
            subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=output, check=False)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    if not results.is_file():
        return Row(suite, mode, "-", "-", f"did not run: see {log}")
    masked = ONE_BROKER_ONLY.get(suite, {}) if brokers.count > 1 else {}
    return compared(suites_dir, suite, mode, results, masked, is_part=bool(argument))


def compared(
    suites_dir: Path, suite: str, mode: str, results: Path, masked: Mapping[str, str], *, is_part: bool
) -> Row:
    """Return the results of a suite, compared with those of Apache Kafka.

    Args:
        suites_dir: folder of the suites.
        suite: name of the suite.
        mode: mode of the broker.
        results: file of the results.
        masked: tests that do not count.
        is_part: count only the tests that ran.
    """
    baseline = suites_dir / "baseline" / f"{suite}.json"
    listing = subprocess.run(
        [sys.executable, suites_dir / "compare.py", results, baseline], capture_output=True, text=True, check=False
    )
    results.with_suffix(".compared").write_text(listing.stdout + listing.stderr, encoding="utf-8")
    ours, kafka = (json.loads(path.read_text(encoding="utf-8")) for path in (results, baseline))
    tried = {name for kind in ("passed", "failed", "skipped") for name in ours[kind]}
    wanted = [name for name in kafka["passed"] if name not in masked and (name in tried or not is_part)]
    missed = sorted(set(wanted) - set(ours["passed"]))
    reached = f"{len(wanted) - len(missed)} of {len(wanted)}"
    return Row(suite, mode, reached, str(len(missed)), ", ".join(missed))


def table(rows: list[Row]) -> str:
    head = Row("suite", "mode", "reached", "missed", "passes only on Apache Kafka")
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(4)]
    lines = []
    for row in [head, *rows]:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, row.note]))
    return "\n".join(line.rstrip() for line in lines)


def wanted_suites(texts: list[str]) -> list[tuple[str, str]]:
    wanted = []
    for text in texts or DEFAULT:
        name, _, argument = text.partition(" ")
        if name not in SUITES:
            sys.exit(f"unknown suite {name!r}: choose from {', '.join(SUITES)}")
        wanted.append((name, argument))
    return wanted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suites-dir", type=Path, required=True)
    parser.add_argument("--modes", default="classic pipelined", help="of the broker, or kafka for Apache Kafka")
    parser.add_argument("--brokers", type=int, default=1, help="number of brokers")
    parser.add_argument("--bootstrap", type=int, default=1, help="id of the broker that the clients know first")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "suites")
    parser.add_argument("--store", help="s3://BUCKET/PREFIX or file:///DIR; credentials come from the environment")
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    options = parser.parse_args()
    wanted = wanted_suites(options.suites)
    suites_dir = options.suites_dir.resolve()
    if not (suites_dir / "compare.py").is_file():
        print(f"skipped: no client suites in {options.suites_dir}. Give their folder with SUITES_DIR=...")
        return 0
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    brokers = Brokers(options.brokers, options.bootstrap, options.store)
    rows = [
        run(suites_dir, out, mode, suite, argument, brokers)
        for suite, argument in wanted
        for mode in options.modes.split()
    ]
    print(table(rows))
    return 1 if any(row.failed != "0" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
