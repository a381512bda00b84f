"""A driver of brokers with an unmodified third-party client: confluent-kafka (librdkafka).

It is a child process (`python -m`), so that client threads do not disturb the experiment's own process. It reads one
JSON object per line from stdin, `{"connect": [JOB, ...]}` or `{"run": JOB}`, and writes one answer to stdout; `kind`
selects a job of `JOBS`. Clients connect before the runs of a round, all in parallel, because a new producer may
take half a second to get its producer id.
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
    """Return the job that a message describes.

    Raises:
        TypeError, KeyError: the message describes no job.
    """
    given = dict(message)
    return JOBS[given.pop("kind")](**given)


class Clients:
    def __init__(self) -> None:
        self._by_key: dict[object, list[Any]] = {}

    def connect(self, jobs: Sequence[Job]) -> None:
        self._by_key = {}
        jobs_by_key = {job.client_key: job for job in jobs}
        # Runs of several rounds and turns share their clients, so each key is connected once.
        todo = [(number, job) for job in jobs_by_key.values() for number in range(job.clients)]
        if todo:
            with ThreadPoolExecutor(len(todo)) as pool:
                connected = list(pool.map(lambda each: each[1].connect(each[0]), todo))
            for (_, job), client in zip(todo, connected, strict=True):
                self._by_key.setdefault(job.client_key, []).append(client)

    def of(self, job: Job) -> list[Any]:
        """Return the clients of a job.

        Raises:
            KeyError: they were not connected.
        """
        return self._by_key[job.client_key]


def run_job(job: Job, clients: Clients) -> dict[str, float]:
    """Run a job and write its ring file.

    Returns:
        start and end in ns, and the processor time of this process as a share of one core.
    """
    chosen = clients.of(job)
    cpu_began_ns, began_ns = time.process_time_ns(), time.monotonic_ns()
    rows = job.run(chosen)
    ended_ns = time.monotonic_ns()
    share = (time.process_time_ns() - cpu_began_ns) / max(1, ended_ns - began_ns)
    write_client(Path(job.ring), rows)
    return {"started_ns": began_ns, "ended_ns": ended_ns, "client_cpu_share": share}


def main() -> None:
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
        except Exception as error:  # noqa: BLE001 - any failure of a client is reported to the parent
            answer = {"failed": f"{type(error).__name__}: {error}"}
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
