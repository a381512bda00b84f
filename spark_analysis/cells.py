"""What a cell and a run are; plain values, no Spark.

Rules: a cell is one mode under one load; a load is what the two sides of a comparison share. Rates are exact: measured
requests over the time from the first one sent to the last one answered. A percentile is not given where fewer than ten
samples lie beyond it, or two in one run: it would be the luck of a few requests. One run may do with fewer, because
how much rounds differ is in the interval.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from spark_analysis.tables import ABLATION_MODES, RAW_CLIENT, REPLAY_CLIENT, SELF_EXPERIMENT

if TYPE_CHECKING:
    from collections.abc import Sequence

SAMPLES_BEYOND_MIN: Final = 10
SAMPLES_BEYOND_IN_RUN_MIN: Final = 2
PERCENTILES: Final = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
"""The percentiles that are compared, by their names in `summary.json`."""


class Load(NamedTuple):
    """What both sides of a pair are driven with; the variant is what a sweep varies besides, empty elsewhere."""

    client: str
    connections: int
    in_flight: int
    commit_delay_ms: float
    variant: str = ""
    """Factors that have no column of their own, such as `record_size=100`."""
    offered_of: str = ""
    """Open loop: the mode whose capacity the offered rate is a share of; empty elsewhere."""
    offered_share: float = 0.0
    offered_per_s: float = 0.0
    """Open loop: requests a second that are due; 0 in a closed loop, and of the replay."""

    @property
    def open_loop(self) -> bool:
        """Whether requests are sent at times fixed beforehand, so that latency counts from the intended time."""
        return self.client == REPLAY_CLIENT or self.offered_per_s > 0


class Cell(NamedTuple):
    """One mode under one load."""

    mode: str
    load: Load


@attrs.frozen
class RunLatency:
    """What the client of one run waited.

    Attributes:
        samples: measured answers.
        p50_us, p99_us, p999_us: exact percentiles over them; of an open loop from the moment they were due.
        mean_us: from sent to answered, over all answers, the warm-up's among them: what the broker's stamps cover too.
        sent_p50_us, sent_p99_us, sent_p999_us: open loop: from the moment they were sent, without the client's delay.
        late_us: open loop: how late the median request left.
        growth: open loop: seconds by which the wait grew in a second.
    """

    samples: int
    p50_us: float
    p99_us: float
    p999_us: float
    mean_us: float | None = None
    late_us: float | None = None
    growth: float | None = None
    sent_p50_us: float | None = None
    sent_p99_us: float | None = None
    sent_p999_us: float | None = None

    def milliseconds(self, name: str, *, is_from_sent: bool = False) -> float | None:
        """Return a percentile of `PERCENTILES`; None if fewer than two samples lie beyond it, or it is unknown."""
        value = getattr(self, f"sent_{name}_us" if is_from_sent else f"{name}_us")
        if value is None or not enough_samples(self.samples, PERCENTILES[name], SAMPLES_BEYOND_IN_RUN_MIN):
            return None
        return float(value) / 1000


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
    latency: RunLatency | None = None

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
    def of_itself(self) -> bool:
        """Whether this run belongs to the comparison of a mode with itself (A/A), not to that of the two sides."""
        return self.settings.get("experiment") == SELF_EXPERIMENT

    @property
    def compared(self) -> bool:
        """Whether this run counts in speed-ups: untraced, closed loop, not of the ablation, not A/A."""
        return self.of_a_side and not self.traced and not self.cell.load.open_loop

    @property
    def of_a_side(self) -> bool:
        """Whether this run says something of a side of the comparison, or of a broker beside them."""
        return not self.ablation and not self.of_itself


def rate(runs: Sequence[Run]) -> float | None:
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


def enough_samples(samples: int, quantile: float, beyond: int = SAMPLES_BEYOND_MIN) -> bool:
    """Whether a percentile of so many samples means anything: so many of them lie beyond it."""
    return samples * round((1 - quantile) * 1_000_000) >= beyond * 1_000_000


def number(value: float | None) -> float | int | None:
    """A number as JSON readers like it: whole ones without a fraction."""
    return int(value) if value is not None and float(value).is_integer() else value


def order(load: Load) -> tuple[bool, bool, str, str, float, int, int, float]:
    """Sort key of loads: the raw client first, then ordinary clients, then open loops, the replay last."""
    return (
        load.open_loop,
        load.client != RAW_CLIENT,
        load.client,
        load.variant,
        load.commit_delay_ms,
        load.connections,
        load.in_flight,
        load.offered_per_s,
    )


def short_variants(variants: set[str]) -> dict[str, str]:
    """Each variant without the factors that all of them have: what does not vary needs no name."""
    parts = {variant: set(variant.split()) for variant in variants}
    common = set.intersection(*parts.values()) if parts else set()
    return {variant: " ".join(sorted(mine - common)) for variant, mine in parts.items()}
