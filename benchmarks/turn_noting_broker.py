"""A broker that records turns of its event loop: a line for each turn of more than 1 ms.

`turn_noting_broker.py FILE serve ...` runs such a broker. A line contains the name of the turn, its seconds by the
clock, its processor seconds, and those of them that garbage collections took, separated by tabs. The name is that of
the task, followed by APIs that took long in it. Processor time is the cost of the turn itself. Seconds by the clock
also include other processes, and threads that hold the GIL.
"""

import contextlib
import functools
import gc
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TextIO

import trio
from archiving_broker import broker_process

import pipeline_broker
import stages
from pipeline_broker.cli import main as command_line
from pipeline_broker.measure.experiment.broker_process import python_environment
from pipeline_broker.wire.registry import API_KEYS
from stages.loop_turns import NOTED_TURN_SECONDS, LoopTurns

__all__ = ["NotedTurn", "environment_with_bytecode", "noted_turns", "turn_noting_broker"]

NOTED_TURN_NS = int(NOTED_TURN_SECONDS * 1e9)


class NotedTurn(NamedTuple):
    name: str
    clock_seconds: float
    processor_seconds: float
    collecting_seconds: float

    @property
    def step_seconds(self) -> float:
        """Processor time without garbage collections."""
        return self.processor_seconds - self.collecting_seconds


class TurnNotes(trio.abc.Instrument):
    """An instrument that writes a line for each long turn."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._names: list[str] = []
        self._began = self._began_processor = self._began_collecting = self._collecting = 0

    def note_of(self, name: int | str, seconds: float) -> None:
        """Record that a part of the current turn took long; replaces `LoopTurns.note`."""
        del seconds
        api = API_KEYS.get(name) if isinstance(name, int) else None
        self._names.append(str(name) if api is None else api.name)

    def note_collection(self, phase: str, _info: Mapping[str, int]) -> None:
        """Measure a garbage collection; a callback of `gc.callbacks`."""
        if phase == "start":
            self._began_collecting = time.thread_time_ns()
        else:
            self._collecting += time.thread_time_ns() - self._began_collecting

    def before_task_step(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002 - Trio's signature
        self._names.clear()
        self._collecting = 0
        self._began, self._began_processor = time.perf_counter_ns(), time.thread_time_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took, processor = time.perf_counter_ns() - self._began, time.thread_time_ns() - self._began_processor
        if took > NOTED_TURN_NS:
            name = " ".join([task.name.rpartition(".")[2], *dict.fromkeys(self._names)])
            print(name, took / 1e9, processor / 1e9, self._collecting / 1e9, sep="\t", file=self._file, flush=True)


def environment_with_bytecode(folder: Path) -> dict[str, str]:
    """Compile all of our modules, as pip does for an installed package.

    Returns:
        an environment with this bytecode.
    """
    environment = {**python_environment(), "PYTHONPYCACHEPREFIX": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    packages = [str(Path(package.__file__ or "").parent) for package in (pipeline_broker, stages)]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *packages], check=True, env=environment)
    return environment


@contextlib.contextmanager
def turn_noting_broker(folder: Path, environment: Mapping[str, str], *options: str) -> Iterator[tuple[int, Path]]:
    """Run a broker; yield its port and the file of its turns."""
    file = folder / "turns"
    arguments = (str(file), "serve", "--data", str(folder / "data"), *options)
    with broker_process(__file__, *arguments, environment=environment) as port:
        yield port, file


def noted_turns(file: Path) -> list[NotedTurn]:
    """Return the turns since the last call, and empty the file."""
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("", encoding="utf-8")
    return [NotedTurn(name, *map(float, seconds)) for name, *seconds in (line.split("\t") for line in lines)]


def main() -> None:
    with Path(sys.argv[1]).open("a", encoding="utf-8") as file:
        notes = TurnNotes(file)
        LoopTurns.note = notes.note_of  # type: ignore[method-assign]  # affects only this process
        gc.callbacks.append(notes.note_collection)
        trio.run = functools.partial(trio.run, instruments=[notes])
        command_line(sys.argv[2:])


if __name__ == "__main__":
    main()
