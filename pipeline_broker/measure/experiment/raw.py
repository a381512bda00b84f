"""The raw folder of an experiment, with one folder for each run; see docs/reference/trace-format.md.

`run.json` is written last: a folder without it is an incomplete run. Its factors contain the values that a mode stands
for, so readers need not know the presets.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from pipeline_broker.config.settings import parse_settings
from pipeline_broker.measure.experiment.broker_process import ExperimentError
from pipeline_broker.measure.experiment.compared_store import PROPERTIES, ComparedStore
from pipeline_broker.measure.experiment.factors import Offer
from pipeline_broker.measure.experiment.modes import MODES
from pipeline_broker.measure.experiment.runs import RAW, Run
from pipeline_broker.node.options import mode_of
from pipeline_broker.traces.ring_file import SCHEMA

FACTORS_SCHEMA = 1
_RUN_FILE = "run.json"


@attrs.frozen(slots=True)
class Measured:
    started_ns: int
    ended_ns: int
    client_cpu_share: float


@attrs.frozen(slots=True)
class Circumstances:
    """The common facts of all runs of an experiment.

    Attributes:
        flush, commits_in_flight: settings of brokers whose cell does not vary them.
        machine: description of machine, software, date and command.
        seed: seed of the order of the runs.
        store: object store with journals and archives; None if they are on the disk.
    """

    flush: str
    commits_in_flight: int
    machine: dict[str, str | int]
    seed: int
    store: ComparedStore | None = None

    @property
    def properties(self) -> Mapping[str, str]:
        return {} if self.store is None else PROPERTIES


@attrs.frozen(slots=True)
class Surrounded:
    """The facts of one run besides its measurements.

    Attributes:
        process: number of the broker's process; runs with the same number shared it.
        offered_per_s: requests per second that an open loop sent; None in a closed loop.
        machine: load of the machine around the run.
    """

    process: int
    offered_per_s: float | None
    machine: dict[str, float | None]


@attrs.frozen(slots=True)
class RawFolder:
    root: Path

    def clear(self) -> None:
        """Delete the runs of an earlier experiment, and leave an empty folder.

        Raises:
            ExperimentError: the folder contains other files.
        """
        if self.root.exists():
            foreign = [path.name for path in self.root.iterdir() if not path.name.startswith("run-")]
            if foreign:
                raise ExperimentError(
                    f"cannot empty {self.root}: {foreign[0]} is not a run of an experiment. Choose another --out."
                )
            shutil.rmtree(self.root)
        self.root.mkdir(parents=True)

    def run(self, number: int) -> Path:
        path = self._path(number)
        path.mkdir(exist_ok=True)
        return path

    def is_done(self, number: int) -> bool:
        return (self._path(number) / _RUN_FILE).exists()

    def delete_run(self, number: int) -> None:
        shutil.rmtree(self._path(number), ignore_errors=True)

    def write_run(self, run: Run, measured: Measured, own: Surrounded, shared: Circumstances) -> None:
        """Write `run.json`, which marks the run as complete. The rows must already be written."""
        _, settings = MODES.get(run.side.mode, ("", {}))
        cell = run.cell
        offer = Offer() if cell.offer is None else cell.offer
        row = {
            "schema": SCHEMA,
            "run": run.number,
            "round": run.round,
            "traced": run.traced,
            "mode": run.side.mode,
            "side": run.side.number,
            "client": cell.client,
            "in_flight": cell.in_flight,
            "connections": cell.connections,
            "commit_delay_ms": cell.commit_delay_ms,
            "variant": cell.variant,
            "flush": cell.broker.flush or shared.flush,
            "settings": {
                **settings,
                **shared.properties,
                **dict(cell.broker.properties),
                "seed": shared.seed,
                "process": own.process,
            },
            "factors": factors(run, shared),
            "machine": {**shared.machine, **own.machine},
            "client_cpu_share": round(measured.client_cpu_share, 4),
            "lost_rows": 0,
            "offered_of": offer.of or None,
            "offered_share": offer.share or None,
            "offered_per_s": own.offered_per_s,
            "started_ns": measured.started_ns,
            "ended_ns": measured.ended_ns,
            "experiment": run.experiment,
        }
        (self.run(run.number) / _RUN_FILE).write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")

    def _path(self, number: int) -> Path:
        return self.root / f"run-{number:05}"


def factors(run: Run, shared: Circumstances) -> dict[str, Any]:
    """Return all factors of a run by name. For a broker of another project, return only those of the load."""
    cell = run.cell
    found: dict[str, Any] = {
        "schema": FACTORS_SCHEMA,
        "mode": run.side.mode,
        "client": cell.client,
        "connections": cell.connections,
        "depth": cell.in_flight,
        "commit_delay_ms": cell.commit_delay_ms,
    }
    if cell.client == RAW:
        requests = cell.requests
        found |= {
            "record_bytes": requests.record_size,
            "batch_records": requests.batch_records,
            "compression": requests.compression,
            "keys": requests.keys,
            "idempotent": requests.is_idempotent,
            "transaction_requests": requests.transaction_requests,
            "read_share": requests.read_share,
        }
    if run.side.mode in MODES:
        preset, overrides = MODES[run.side.mode]
        config, _ = parse_settings({**overrides, **dict(cell.broker.properties)}.items())
        mode = mode_of(preset, config)
        found |= {
            "queues": mode.queues,
            "handlers": mode.handlers,
            "in_flight_max": mode.in_flight_max,
            "commit": mode.batching.value,
            "commit_on": mode.commit_on.value,
            "commits_in_flight": cell.broker.commits_in_flight or shared.commits_in_flight,
            "flush": cell.broker.flush or shared.flush,
            "brokers": cell.broker.brokers,
            "properties": {**shared.properties, **dict(cell.broker.properties)},
        }
        if shared.store is not None:
            found |= {"wal": "objects", "store": shared.store.kind, "store_delay_ms": shared.store.delay_ms}
    return found
