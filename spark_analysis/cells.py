"""What a cell and a run are; plain values, no Spark.

Rules: a cell is one mode under one load; a load is what the two sides of a comparison share. Rates are exact: measured
requests over the time from the first one sent to the last one answered. A percentile is not given where fewer than ten
samples lie beyond it: it would be the luck of a few requests.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import attrs

from spark_analysis.tables import ABLATION_MODES, RAW_CLIENT, REPLAY_CLIENT

SAMPLES_BEYOND_MIN: Final = 10


class Load(NamedTuple):
    """What both sides of a pair are driven with; the variant is what a sweep varies besides, empty elsewhere."""

    client: str
    connections: int
    in_flight: int
    commit_delay_ms: float
    variant: str = ""
    """Factors that have no column of their own, such as `record_size=100`."""

    @property
    def open_loop(self) -> bool:
        """Whether requests are sent at times fixed beforehand, so that latency counts from the intended time."""
        return self.client == REPLAY_CLIENT


class Cell(NamedTuple):
    """One mode under one load."""

    mode: str
    load: Load


@attrs.frozen
class Run:
    """One run: its row of the `runs` table and its totals over the measured client rows."""

    number: int
    round: int
    traced: bool
    side: int
    cell: Cell
    flush: str
    settings: dict[str, Any]
    machine: dict[str, Any]
    client_cpu_share: float | None
    lost_rows: int
    requests: int = 0
    errors: int = 0
    first_sent_ns: int | None = None
    last_answered_ns: int | None = None
    factors: dict[str, Any] = attrs.field(factory=dict)

    @property
    def seconds(self) -> float:
        """From the first measured request sent to the last one answered."""
        if self.first_sent_ns is None or self.last_answered_ns is None:
            return 0.0
        return max(0, self.last_answered_ns - self.first_sent_ns) / 1e9

    @property
    def ablation(self) -> bool:
        """Whether this run belongs to the ablation, not to the comparison of the two sides."""
        return self.settings.get("experiment") == "ablation" or self.cell.mode in ABLATION_MODES

    @property
    def compared(self) -> bool:
        """Whether this run counts in speed-ups: untraced, closed loop, not of the ablation."""
        return not self.traced and not self.ablation and not self.cell.load.open_loop


def rate(runs: list[Run]) -> float | None:
    """Requests a second over some runs: all their requests over the sum of their times."""
    seconds = sum(run.seconds for run in runs)
    return sum(run.requests for run in runs) / seconds if seconds > 0 else None


def parse_object(text: str | None) -> dict[str, Any]:
    """A JSON object from a text column; other text under the name `text`."""
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        return {"text": text}
    return value if isinstance(value, dict) else {"text": value}


def enough_samples(samples: int, quantile: float) -> bool:
    """Whether a percentile of so many samples means anything (ten of them lie beyond it)."""
    return samples * round((1 - quantile) * 1_000_000) >= SAMPLES_BEYOND_MIN * 1_000_000


def number(value: float | None) -> float | int | None:
    """A number as JSON readers like it: whole ones without a fraction."""
    return int(value) if value is not None and float(value).is_integer() else value


def order(load: Load) -> tuple[bool, bool, str, str, float, int, int]:
    """Sort key of loads: the raw client first, then ordinary clients, then the replay."""
    return (
        load.open_loop,
        load.client != RAW_CLIENT,
        load.client,
        load.variant,
        load.commit_delay_ms,
        load.connections,
        load.in_flight,
    )


def short_variants(variants: set[str]) -> dict[str, str]:
    """Each variant without the factors that all of them have: what does not vary needs no name."""
    parts = {variant: set(variant.split()) for variant in variants}
    common = set.intersection(*parts.values()) if parts else set()
    return {variant: " ".join(sorted(mine - common)) for variant, mine in parts.items()}
