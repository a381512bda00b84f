"""Run third-party client suites, each against a fresh broker, and compare them with Apache Kafka.

    scripts/run_suites.py --suites-dir DIR [--modes "classic pipelined"] [--store URL] [--out DIR]
                          ["SUITE [ARGUMENT]"...]

A suite is one of `SUITES`, or a part of it: ARGUMENT is passed to its program after the file of results, such as a
pattern of names. Results are written to out/suites/MODE-SUITE.json, with the output of suite and broker beside them. A
failing suite does not stop the others, and one table summarizes all of them. The exit code is 1 if a test fails that
passes on Apache Kafka. With a store, which must already run, each broker keeps all data there, below its own prefix.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SUITES = {
    "python_clients": ("python_clients.py", ""),
    "kafka_python": ("kafka_python.sh", ""),
    "librdkafka-smoke": ("librdkafka.sh", "smoke"),
    "librdkafka-quick": ("librdkafka.sh", "quick"),
    "librdkafka-long": ("librdkafka.sh", "long"),
    "librdkafka-share": ("librdkafka.sh", "share"),
    "java_tools": ("java_tools.sh", ""),
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


class Row(NamedTuple):
    suite: str
    mode: str
    reached: str
    failed: str
    note: str = ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def broker_command(mode: str, port: int, data: Path, store: str | None) -> str:
    """Return the command of a broker for the suites."""
    place = f"--data {data}" if store is None else f"--data {data} --store {store}/{data.name} --wal objects"
    settings = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    if store is not None:
        settings |= STORE_SETTINGS
    arguments = " ".join(f"--set {name}={value}" for name, value in settings.items())
    return f"{sys.executable} -m pipeline_broker serve --mode {mode} --port {port} {place} {arguments}"


def run(suites_dir: Path, out: Path, mode: str, suite: str, argument: str, store: str | None = None) -> Row:
    program, everything = SUITES[suite]
    stem = f"{mode}-{suite}"
    results, log = out / f"{stem}.json", out / f"{stem}.out"
    results.unlink(missing_ok=True)
    data, port = Path(tempfile.mkdtemp(prefix="suites-")), free_port()
    command = [suites_dir / "with_broker.sh", str(port), broker_command(mode, port, data, store)]
    command += [suites_dir / program, f"127.0.0.1:{port}", str(results), *filter(None, [argument or everything])]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "BROKER_LOG": str(out / f"{stem}.log"), "PATH": path}
    print(f"{suite} {argument}".rstrip() + f", {mode}", flush=True)
    try:
        with log.open("wb") as output:
            subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=output, check=False)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    if not results.is_file():
        return Row(suite, mode, "-", "-", f"did not run: see {log}")
    return compared(suites_dir, suite, mode, results, is_part=bool(argument))


def compared(suites_dir: Path, suite: str, mode: str, results: Path, *, is_part: bool) -> Row:
    """Return the results of a suite, compared with those of Apache Kafka.

    Args:
        suites_dir: folder of the suites.
        suite: name of the suite.
        mode: mode of the broker.
        results: file of the results.
        is_part: count only the tests that ran.
    """
    baseline = suites_dir / "baseline" / f"{suite}.json"
    listing = subprocess.run(
        [sys.executable, suites_dir / "compare.py", results, baseline], capture_output=True, text=True, check=False
    )
    results.with_suffix(".compared").write_text(listing.stdout + listing.stderr, encoding="utf-8")
    ours, kafka = (json.loads(path.read_text(encoding="utf-8")) for path in (results, baseline))
    tried = {name for kind in ("passed", "failed", "skipped") for name in ours[kind]}
    wanted = [name for name in kafka["passed"] if name in tried or not is_part]
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
    parser.add_argument("--modes", default="classic pipelined")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "suites")
    parser.add_argument("--store", help="s3://BUCKET/PREFIX or file:///DIR; credentials come from the environment")
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    options = parser.parse_args()
    wanted = wanted_suites(options.suites)
    suites_dir = options.suites_dir.resolve()
    if not (suites_dir / "with_broker.sh").is_file():
        print(f"skipped: no client suites in {options.suites_dir}. Give their folder with SUITES_DIR=...")
        return 0
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    rows = [
        run(suites_dir, out, mode, suite, argument, options.store)
        for suite, argument in wanted
        for mode in options.modes.split()
    ]
    print(table(rows))
    return 1 if any(row.failed != "0" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
