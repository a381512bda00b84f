"""Execution of single runs: the client of the run's cell drives a broker, and its rows are written.

The native client and the replay run in this process, which does nothing else during a run. confluent-kafka runs in one
child process for the whole experiment.
"""

import contextlib
import importlib.util
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio

from pipeline_broker.client.errors import error_name
from pipeline_broker.measure.experiment.broker_process import (
    ExperimentError,
    RunningBroker,
    python_environment,
    python_module,
    read_line,
)
from pipeline_broker.measure.experiment.budget import HANG_UP_S, Costs, open_seconds
from pipeline_broker.measure.experiment.command_client import run_command
from pipeline_broker.measure.experiment.factors import RECORD_BYTES
from pipeline_broker.measure.experiment.raw import Measured
from pipeline_broker.measure.experiment.replayed import Stretch
from pipeline_broker.measure.experiment.runs import COMMAND, PAIRS, RAW, READER, REPLAY, Run, Side
from pipeline_broker.measure.load.client import LoadResult, prepared, run_load
from pipeline_broker.measure.load.options import Arrivals, LoadOptions
from pipeline_broker.traces.client_rows import ClientRow, read_client, write_client

TOPIC = "load"
OPEN_IN_FLIGHT_MAX = 1_000_000
"""Window of a connection in an open loop: so large that the intended times alone set the pace."""
READ_TOPIC = "read"
READ_BYTES = 64 << 10
"""Maximum size of the records in one read."""
FILL = LoadOptions(
    "",
    0,
    topic=READ_TOPIC,
    in_flight=OPEN_IN_FLIGHT_MAX,
    record_size=RECORD_BYTES,
    batch_records=500,
    rate_per_s=1_000.0,
    seconds=0.2,
    warmup_s=0.0,
)
"""The load that fills the topic of the readers, with the same 10 MB on each broker."""
PAIRS_TOPIC = "pairs"
PREPARE_S_MAX = 30.0
WARM_S = 0.1
OTHER_WARM_S = 8.0
"""Warm-up of a Java broker: the JVM compiles frequent code, and the rate settles after this time."""
_WARM_LOAD = (4, 16)  # connections and requests in flight that warm a broker up
_CHILD_S_MAX = 90.0
_RING = "client-0.ring"


class ConfluentChild:
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
        return Measured(**self._ask({"run": job}))

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        line = read_line(self._process.stdout, _CHILD_S_MAX)
        answer: dict[str, Any] = json.loads(line) if line else {"failed": "the process ended"}
        if "failed" in answer:
            raise ExperimentError(f"confluent-kafka: {answer['failed']}")
        return answer

    def connect(self, jobs: Sequence[dict[str, Any]]) -> None:
        """Connect the clients of these jobs in parallel, and drop the previous clients.

        Raises:
            ExperimentError: a client cannot connect, or the process ended or does not answer.
        """
        self._ask({"connect": list(jobs)})

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._errors.close()


def has_confluent() -> bool:
    return importlib.util.find_spec("confluent_kafka") is not None


@attrs.define
class Driver:
    """An executor of runs of all kinds of clients.

    Attributes:
        costs: durations of runs.
        warmup_s: warm-up of each run, a part of its duration.
        stretches: recorded events, one stretch for each round.
        seed: seed of the intended times of open loops; all sides of a round have the same.
        command: command line of the user's client.
    """

    costs: Costs
    warmup_s: float
    stretches: Sequence[Stretch]
    seed: int
    command: str = ""
    _child: ConfluentChild | None = None

    def warm_up(self, broker: RunningBroker, *, is_ours: bool = True) -> None:
        """Drive a broker briefly, so that it has compiled and imported its code before the first measurement.

        Args:
            is_ours: whether the broker is of this project. Other brokers get OTHER_WARM_S seconds.

        Raises:
            ClientError: the broker could not be driven.
        """
        # Apache Kafka names the leader of a new topic some time before the topic accepts writes. Its warm-up therefore
        # uses the topic of the measurement.
        connections, in_flight = _WARM_LOAD
        seconds, topic = (WARM_S, "warm-up") if is_ours else (OTHER_WARM_S, TOPIC)
        run_load(LoadOptions(broker.host, broker.port, connections, in_flight, RECORD_BYTES, seconds, topic=topic))

    def prepare_topics(self, runs: Sequence[Run], broker: RunningBroker) -> None:
        if any(run.cell.client == READER for run in runs):
            run_load(attrs.evolve(FILL, host=broker.host, port=broker.port))
        pairs = max((run.cell.connections for run in runs if run.cell.client == PAIRS), default=0)
        if pairs:
            trio.run(prepared, broker.host, broker.port, PAIRS_TOPIC, pairs, PREPARE_S_MAX)

    def connect_clients(self, runs: Sequence[Run], brokers: Mapping[Side, RunningBroker]) -> None:
        """Connect the confluent-kafka clients of these runs in parallel.

        A new client needs half a second for its producer id. Many in parallel need no longer.
        """
        jobs = [self._job(run, brokers[run.side], "") for run in runs if run.cell.uses_confluent]
        if jobs:
            self._child = self._child or ConfluentChild()
            self._child.connect(jobs)

    def disconnect_clients(self) -> None:
        if self._child is not None:
            self._child.connect([])

    def run(
        self, run: Run, broker: RunningBroker, folder: Path, offered_per_s: float | None = None
    ) -> tuple[list[ClientRow], Measured]:
        """Drive the broker with the run's cell, and write the rows.

        Args:
            folder: folder for the rows.
            offered_per_s: requests per second of an open loop; None: a closed loop.

        Returns:
            the rows, and the start, end and processor time of the run.

        Raises:
            ExperimentError: the broker answered with an error, or gave no answer in measured time.
            ClientError: the broker could not be driven.
        """
        if run.cell.client in (RAW, READER):
            rows, measured = self._in_process(run_load(self._load_options(run, broker, offered_per_s)), folder)
        elif run.cell.client == REPLAY:
            stretch = self.stretches[(run.round - 1) % len(self.stretches)]
            rows, measured = self._in_process(stretch.replay(broker.host, broker.port), folder)
        elif run.cell.client == COMMAND:
            rows, measured = self._in_process(run_command(self.command, broker), folder)
        else:
            rows, measured = self._confluent(run, broker, folder)
        failed = next((row.error for row in rows if row.error), 0)
        if failed:
            raise ExperimentError(f"the {run.side.mode} broker answered {run.cell.client} with {error_name(failed)}")
        # In an open loop, a slow broker may still answer requests of the warm-up when the run ends.
        counted = (row for row in rows if row.measured or run.cell.is_open)
        if not any(row.answered_ns is not None for row in counted):
            raise ExperimentError(
                f"{run.cell.client} got no answer from the {run.side.mode} broker after the warm-up. Repeat the"
                " experiment on a quieter machine"
            )
        return rows, measured

    def _load_options(self, run: Run, broker: RunningBroker, offered_per_s: float | None) -> LoadOptions:
        cell = run.cell
        closed = LoadOptions(
            broker.host,
            broker.port,
            connections=cell.connections,
            in_flight=cell.in_flight,
            seconds=self.costs.run_s,
            warmup_s=self.warmup_s,
            **attrs.asdict(cell.requests),
        )
        if cell.client == READER:
            return attrs.evolve(closed, topic=READ_TOPIC, read_share=1.0, read_bytes=READ_BYTES)
        if offered_per_s is None:
            return closed
        return attrs.evolve(
            closed,
            in_flight=OPEN_IN_FLIGHT_MAX,
            seconds=open_seconds(offered_per_s, self.costs.open_s, self.warmup_s),
            rate_per_s=offered_per_s,
            arrivals=Arrivals.POISSON,
            hang_up_s=HANG_UP_S,
            # All sides of a round receive the same requests at the same times.
            seed=self.seed + run.round,
        )

    def _in_process(self, result: LoadResult, folder: Path) -> tuple[list[ClientRow], Measured]:
        write_client(folder / _RING, result.rows)
        return result.rows, Measured(result.started_ns, result.ended_ns, result.client_cpu_share)

    def _confluent(self, run: Run, broker: RunningBroker, folder: Path) -> tuple[list[ClientRow], Measured]:
        self._child = self._child or ConfluentChild()
        measured = self._child.run(self._job(run, broker, str(folder / _RING)))
        return read_client(folder / _RING), measured

    def _job(self, run: Run, broker: RunningBroker, ring: str) -> dict[str, Any]:
        cell = run.cell
        job = {
            "address": f"{broker.host}:{broker.port}",
            "warmup_s": self.warmup_s,
            "record_size": RECORD_BYTES,
            "ring": ring,
        }
        if cell.client != PAIRS:
            producers = {"kind": "produce", "topic": TOPIC, "producers": cell.connections, "linger_ms": cell.linger_ms}
            return {**job, **producers, "seconds": self.costs.run_s}
        assert cell.offer is not None
        assert cell.offer.per_s is not None
        return {
            **job,
            "kind": PAIRS,
            "topic": PAIRS_TOPIC,
            "pairs": cell.connections,
            "rate_per_s": cell.offer.per_s,
            "seconds": open_seconds(cell.offer.per_s, self.costs.open_s, self.warmup_s),
            "hang_up_s": HANG_UP_S,
            "seed": self.seed + run.round,
        }

    def close(self) -> None:
        if self._child is not None:
            self._child.close()


@contextlib.contextmanager
def driver(
    costs: Costs, warmup_s: float, stretches: Sequence[Stretch], seed: int, command: str = ""
) -> Iterator[Driver]:
    found = Driver(costs, warmup_s, stretches, seed, command)
    try:
        yield found
    finally:
        found.close()
