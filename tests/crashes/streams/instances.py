"""Instances of a Kafka Streams application, one process each."""

import subprocess
from pathlib import Path

import attrs

from tests import kafka_tools
from tests.short_java import SHORT_JAVAC

PROGRAM = Path(__file__).with_name("StreamsApplication.java")
COMPILE_SECONDS_MAX = 60.0
CLOSE_SECONDS_MAX = 30.0
THREADS = 2


class Compiled:
    """The applications, compiled into a directory."""

    def __init__(self, directory):
        classes = kafka_tools.streams_class_path()
        command = [*SHORT_JAVAC, "-d", str(directory), "-cp", classes, str(PROGRAM)]
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=COMPILE_SECONDS_MAX)
        self.command = [*kafka_tools.java_command(directory), "-cp", f"{classes}:{directory}", "StreamsApplication"]


@attrs.define
class Instance:
    """A running instance; `directory` keeps its state stores and its output."""

    directory: Path
    process: subprocess.Popen
    output: Path

    @property
    def is_running(self):
        return self.process.poll() is None

    @property
    def has_processed(self):
        return "state RUNNING" in self.output.read_text(encoding="utf-8")

    @property
    def error(self):
        """Return the first error in its output, and the causes of all."""
        lines = self.output.read_text(encoding="utf-8").splitlines()
        first = next((line for line in lines if "Exception" in line), lines[-1:])
        return first, [line for line in lines if line.startswith("Caused by")]

    def close(self):
        """Let it leave its group; return whether it closed without an error."""
        self.process.stdin.close()
        return self.process.wait(CLOSE_SECONDS_MAX) == 0

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


def start(compiled, bootstrap, name, directory):
    """Start an instance over the state stores in a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    output = directory / f"output-{len(list(directory.glob('output-*')))}"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*compiled.command, bootstrap, name, str(directory / "state"), str(THREADS)],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
        )
    return Instance(directory, process, output)
