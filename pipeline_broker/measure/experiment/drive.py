"""Carries out one run: drives a broker and leaves its rows in the run's folder.

Rules of this file: the raw client and the replay run in this process, which does nothing else meanwhile;
confluent-kafka runs in one child for the whole experiment. An answer with an error code is a failed experiment, not a
figure.
"""

import contextlib
import importlib.util
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from pipeline_broker.client.errors import error_name
from pipeline_broker.measure.experiment.broker_process import (
    ExperimentError,
    RunningBroker,
    python_environment,
    python_module,
    read_line,
)
from pipeline_broker.measure.experiment.factors import RECORD_BYTES
from pipeline_broker.measure.experiment.plan import RAW, REPLAY, Run
from pipeline_broker.measure.experiment.raw import Measured
from pipeline_broker.measure.load.client import LoadResult, run_load
from pipeline_broker.measure.load.departures import Departure
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.replay import ReplayOptions, run_replay
from pipeline_broker.traces.client_rows import ClientRow, read_client, write_client

TOPIC = "load"
WARM_S = 0.1
OTHER_WARM_S = 8.0
"""A Java broker compiles what it does often; after so long its rate has settled."""
_WARM_LOAD = (4, 16)  # connections and requests in flight that warm a broker up
_CHILD_S_MAX = 90.0
_RING = "client-0.ring"


class ConfluentChild:
    """The process that runs confluent-kafka, one job after the other."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            python_module("pipeline_broker.measure.experiment.confluent_driver"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=python_environment(),
            start_new_session=True,
        )

    def run(self, job: dict[str, Any]) -> Measured:
        """Run one job."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        line = read_line(self._process.stdout, _CHILD_S_MAX)
        answer = json.loads(line) if line else {"failed": "the process ended"}
        if "failed" in answer:
            raise ExperimentError(f"confluent-kafka: {answer['failed']}")
        return Measured(**answer)

    def close(self) -> None:
        """End the child."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._errors.close()


def has_confluent() -> bool:
    """Whether confluent-kafka is installed."""
    return importlib.util.find_spec("confluent_kafka") is not None


@attrs.define
class Driver:
    """Runs of every kind of client.

    Attributes:
        run_s, warmup_s: of each run of a closed loop, the second within the first.
        departures: that are replayed.
    """

    run_s: float
    warmup_s: float
    departures: Sequence[Departure]
    _child: ConfluentChild | None = None

    def warm_up(self, broker: RunningBroker, *, is_ours: bool = True) -> None:
        """Make a broker compile and import what it needs, before anything is measured.

        One that is not ours is warmed up on the topic that is measured: Apache Kafka names the leader of a new topic
        some time before it lets itself be written to.
        """
        connections, in_flight = _WARM_LOAD
        seconds, topic = (WARM_S, "warm-up") if is_ours else (OTHER_WARM_S, TOPIC)
        run_load(LoadOptions(broker.host, broker.port, connections, in_flight, RECORD_BYTES, seconds, topic=topic))

    def run(self, run: Run, broker: RunningBroker, folder: Path) -> tuple[list[ClientRow], Measured]:
        """Drive the broker as the run's cell says, and write the client's rows."""
        if run.cell.client == RAW:
            rows, measured = self._in_process(run_load(self._load_options(run, broker)), folder)
        elif run.cell.client == REPLAY:
            options = ReplayOptions(broker.host, broker.port, self.departures)
            rows, measured = self._in_process(run_replay(options), folder)
        else:
            rows, measured = self._confluent(run, broker, folder)
        failed = next((row.error for row in rows if row.error), 0)
        if failed:
            raise ExperimentError(f"the {run.side.mode} broker answered {run.cell.client} with {error_name(failed)}")
        if not any(row.measured for row in rows):
            raise ExperimentError(f"{run.cell.client} got no answer from the {run.side.mode} broker in measured time")
        return rows, measured

    def _load_options(self, run: Run, broker: RunningBroker) -> LoadOptions:
        return LoadOptions(
            broker.host,
            broker.port,
            connections=run.cell.connections,
            in_flight=run.cell.in_flight,
            seconds=self.run_s,
            warmup_s=self.warmup_s,
            **attrs.asdict(run.cell.requests),
        )

    def _in_process(self, result: LoadResult, folder: Path) -> tuple[list[ClientRow], Measured]:
        write_client(folder / _RING, result.rows)
        return result.rows, Measured(result.started_ns, result.ended_ns, result.client_cpu_share)

    def _confluent(self, run: Run, broker: RunningBroker, folder: Path) -> tuple[list[ClientRow], Measured]:
        if self._child is None:
            self._child = ConfluentChild()
        measured = self._child.run(
            {
                "address": f"{broker.host}:{broker.port}",
                "topic": TOPIC,
                "producers": run.cell.connections,
                "linger_ms": run.cell.linger_ms,
                "seconds": self.run_s,
                "warmup_s": self.warmup_s,
                "record_size": RECORD_BYTES,
                "ring": str(folder / _RING),
            }
        )
        return read_client(folder / _RING), measured

    def close(self) -> None:
        """End what runs beside this process."""
        if self._child is not None:
            self._child.close()


@contextlib.contextmanager
def driver(run_s: float, warmup_s: float, departures: Sequence[Departure]) -> Iterator[Driver]:
    """A driver that is closed at the end of the block."""
    found = Driver(run_s, warmup_s, departures)
    try:
        yield found
    finally:
        found.close()
