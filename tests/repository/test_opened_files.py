"""Every file that the product opens by a name is opened within bounds, or is listed here with the reason why not.

`files/bounded_file.py` opens regular files only; what it reads whole has a bound, and what is longer is read in pieces
through `files/file_system.py`. A pipe or a device that a stranger has put in place of a file never stops a start.
"""

import ast
import functools
from pathlib import Path

PACKAGES = ("pipeline_broker", "pyspark_pipeline_broker", "stages")
PATH_METHODS = {"read_bytes", "read_text"}
OPENERS = {("os", "open"), ("gzip", "open"), ("io", "open")}
MAY_OPEN = {
    "_package_check.py": "a file that is installed with the package",
    "commands/cluster/bootstrap.py": "the null device",
    "commands/cluster/streams.py": "what a user names to be produced, which may be a pipe, read in pieces of 64 KiB",
    "config/properties.py": "a table that is installed with the package",
    "dashboard/static_files.py": "files that are installed with the package, held against their checksums",
    "files/bounded_file.py": "this is where files are opened",
    "files/file_system.py": "makes files, and opens directories to sync them",
    "measure/experiment/broker_process.py": "the errors of a process of its own",
    "measure/experiment/kafka_process.py": "the output of a process of its own",
    "measure/experiment/machine.py": "files of /proc",
    "measure/experiment/sweep_run.py": "what an earlier run of the same command wrote",
    "measure/load/departures.py": "compressed data that a user names, for a command of that user alone",
    "measure/experiment/traced_spans.py": "what the runs of the same command wrote",
    "node/unix_socket.py": "the directory of the socket itself, as a directory",
    "node/observers.py": "appended to, without waiting for a reader",
    "base/owner_only.py": "makes files, without waiting for a reader",
    "schema_registry/protobuf_schema.py": "files that the worker process has made in a directory of its own",
    "telemetry/client_metrics_file.py": "made anew",
    "telemetry/request_log.py": "appended to, without waiting for a reader",
    "telemetry/trace_files.py": "made anew",
    "worker/child.py": "the null device",
}


def opened_in(tree):
    """Lines where a file is opened by a name, but for those of a file system's own `open`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id == "open":
            yield node.lineno
        elif isinstance(function, ast.Attribute):
            owner = function.value.id if isinstance(function.value, ast.Name) else ""
            is_path_opened = function.attr == "open" and bool(node.args) and isinstance(node.args[0], ast.Constant)
            if function.attr in PATH_METHODS or (owner, function.attr) in OPENERS or is_path_opened:
                yield node.lineno


@functools.cache
def found():
    return list(places())


def places():
    for package in PACKAGES:
        for path in sorted(Path(package).rglob("*.py")):
            name = str(path.relative_to(package))
            for line in opened_in(ast.parse(path.read_text(encoding="utf-8"))):
                yield name, line


def test_files_are_opened_in_one_place():
    strange = [f"{name}:{line}" for name, line in found() if name not in MAY_OPEN]
    assert strange == [], "read it by `files.bounded_file.read_bounded`, or through a FileSystem"


def test_no_reason_is_left_over():
    assert MAY_OPEN.keys() == {name for name, _ in found()}


def test_each_way_to_open_a_file_is_seen():
    for call in (
        "open('a')",
        "path.open('rb')",
        "os.open(a, 1)",
        "path.read_text()",
        "path.read_bytes()",
        "gzip.open(a)",
    ):
        assert list(opened_in(ast.parse(call))) == [1], call
    for call in ("files.open(path)", "self.room.open()", "store.open()"):
        assert list(opened_in(ast.parse(call))) == [], call
