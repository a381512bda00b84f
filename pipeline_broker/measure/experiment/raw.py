"""The raw folder of an experiment: one folder a run, as docs/trace-format.md has it.

Rules of this file: a run's folder is complete or has no run.json, which is written last; what an earlier experiment
left in the same place is removed first, but nothing that is not an experiment's. What a run tells of its factors is
resolved: the values that a mode stands for are written out, so that a reader needs to know no preset.
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
    """What is known of a run beside its rows."""

    started_ns: int
    ended_ns: int
    client_cpu_share: float


@attrs.frozen(slots=True)
class Circumstances:
    """What all runs of an experiment share.

    Attributes:
        flush, commits_in_flight: of the brokers, where the cell does not say them.
        machine: that it runs on, with which software, date and command.
        seed: of the order of the runs.
        store: that the brokers have their journals and archives in; None: each has a disk.
    """

    flush: str
    commits_in_flight: int
    machine: dict[str, str | int]
    seed: int
    store: ComparedStore | None = None

    @property
    def properties(self) -> Mapping[str, str]:
        """Of all brokers, where a cell does not vary them."""
        return {} if self.store is None else PROPERTIES


@attrs.frozen(slots=True)
class Surrounded:
    """What one run has of its own beside what it measured.

    Attributes:
        process: the number of the broker's process; runs with the same number shared it.
        offered_per_s: requests a second that an open loop sent; None in a closed loop.
        machine: how busy the machine was.
    """

    process: int
    offered_per_s: float | None
    machine: dict[str, float | None]


@attrs.frozen(slots=True)
class RawFolder:
    """`DIR/raw`."""

    root: Path

    def clear(self) -> None:
        """Make the folder empty."""
        if self.root.exists():
            foreign = [path.name for path in self.root.iterdir() if not path.name.startswith("run-")]
            if foreign:
                raise ExperimentError(
                    f"{self.root} holds {foreign[0]}, which is not a run of an experiment: not removed"
                )
            shutil.rmtree(self.root)
        self.root.mkdir(parents=True)

    def run(self, number: int) -> Path:
        """The folder of a run, made when missing."""
        path = self._path(number)
        path.mkdir(exist_ok=True)
        return path

    def is_done(self, number: int) -> bool:
        """Whether a run is complete."""
        return (self._path(number) / _RUN_FILE).exists()

    def forget(self, number: int) -> None:
        """Remove what there is of a run."""
        shutil.rmtree(self._path(number), ignore_errors=True)

    def write_run(self, run: Run, measured: Measured, own: Surrounded, shared: Circumstances) -> None:
        """Describe a run whose rows are written."""
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
    """All that was chosen for a run, under names with their units; of a broker that is not ours, the load."""
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
            "properties": {**shared.properties, **dict(cell.broker.properties)},
        }
        if shared.store is not None:
            found |= {"wal": "objects", "store": shared.store.kind, "store_delay_ms": shared.store.delay_ms}
    return found
