"""The raw folder of an experiment: one folder a run, as docs/trace-format.md has it.

Rules of this file: a run's folder is complete or has no run.json, which is written last; what an earlier experiment
left in the same place is removed first, but nothing that is not an experiment's.
"""

import json
import shutil
from pathlib import Path

import attrs

from pipeline_broker.experiment.broker_process import ExperimentError
from pipeline_broker.experiment.plan import MODES, Run

SCHEMA = 1


@attrs.frozen(slots=True)
class Measured:
    """What is known of a run beside its rows."""

    started_ns: int
    ended_ns: int
    client_cpu_share: float


@attrs.frozen(slots=True)
class RawFolder:
    """`DIR/raw`."""

    root: Path

    def clear(self) -> None:
        """Make the folder empty."""
        if self.root.exists():
            foreign = [path.name for path in self.root.iterdir() if not path.name.startswith("run-")]
            if foreign:
                raise ExperimentError(f"{self.root} holds {foreign[0]}, which is no run of an experiment: not removed")
            shutil.rmtree(self.root)
        self.root.mkdir(parents=True)

    def run(self, number: int) -> Path:
        """The folder of a run, made when missing."""
        path = self.root / f"run-{number:05}"
        path.mkdir(exist_ok=True)
        return path

    def write_run(self, run: Run, measured: Measured, flush: str, machine: dict[str, str | int]) -> None:
        """Describe a run whose rows are written."""
        _, settings = MODES.get(run.side.mode, ("", {}))
        cell = run.cell
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
            "flush": flush,
            "settings": settings,
            "machine": machine,
            "client_cpu_share": round(measured.client_cpu_share, 4),
            "lost_rows": 0,
            "started_ns": measured.started_ns,
            "ended_ns": measured.ended_ns,
            "experiment": run.experiment,
        }
        (self.run(run.number) / "run.json").write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
