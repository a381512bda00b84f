"""Drives a broker with unmodified third-party clients: confluent-kafka (librdkafka).

It is a child process of its own (`python -m`), so that the threads of the clients do not disturb the process that
waits for it. It takes one JSON object a line on stdin, `{"connect": [JOB, ...]}` or `{"run": JOB}`, and answers each
with one on stdout. `kind` says which of `JOBS` a job is. Clients are connected before the runs of a round, all at
once: a new producer may spend half a second on its producer id.
"""

import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pipeline_broker.measure.experiment.confluent_pairs import PairJob
from pipeline_broker.measure.experiment.confluent_producers import ProduceJob
from pipeline_broker.traces.client_rows import write_client

Job = ProduceJob | PairJob
JOBS: dict[str, type[Job]] = {"produce": ProduceJob, "publish-to-consume": PairJob}


def job_of(message: dict[str, Any]) -> Job:
    """Return the job that a message describes; raise TypeError or KeyError for another message."""
    given = dict(message)
    return JOBS[given.pop("kind")](**given)


class Clients:
    """The clients of one group of runs, for the brokers of all its sides."""

    def __init__(self) -> None:
        self._by_place: dict[object, list[Any]] = {}

    def connect(self, jobs: Sequence[Job]) -> None:
        """Connect the clients of these jobs, all at once, in place of those before."""
        self._by_place = {}
        places = {job.place: job for job in jobs}
        todo = [(number, job) for job in places.values() for number in range(job.clients)]
        if todo:
            with ThreadPoolExecutor(len(todo)) as pool:
                connected = list(pool.map(lambda each: each[1].connect(each[0]), todo))
            for (_, job), client in zip(todo, connected, strict=True):
                self._by_place.setdefault(job.place, []).append(client)

    def of(self, job: Job) -> list[Any]:
        """Return the clients of a job; raise KeyError if they were not connected."""
        return self._by_place[job.place]


def run_job(job: Job, clients: Clients) -> dict[str, float]:
    """Run a job and write its ring file; return its times, and how busy this process was."""
    chosen = clients.of(job)
    cpu_began_ns, began_ns = time.process_time_ns(), time.monotonic_ns()
    rows = job.run(chosen)
    ended_ns = time.monotonic_ns()
    share = (time.process_time_ns() - cpu_began_ns) / max(1, ended_ns - began_ns)
    write_client(Path(job.ring), rows)
    return {"started_ns": began_ns, "ended_ns": ended_ns, "client_cpu_share": share}


def main() -> None:
    """Answer jobs until stdin ends."""
    clients = Clients()
    for line in sys.stdin:
        answer: dict[str, Any]
        try:
            message = json.loads(line)
            if "connect" in message:
                clients.connect([job_of(job) for job in message["connect"]])
                answer = {}
            else:
                answer = dict(run_job(job_of(message["run"]), clients))
        except Exception as error:  # noqa: BLE001 - whatever went wrong in the client is the answer
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)  # noqa: T201 - stdout is the channel to the parent


if __name__ == "__main__":
    main()
