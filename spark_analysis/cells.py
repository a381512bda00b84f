"""Loads, cells and runs of an experiment, as plain values.

A cell is one mode under one load; both sides of a comparison share the load. Rates are exact: measured requests over
the time from the first one sent to the last one answered.

A percentile is left out if fewer than ten samples lie beyond it, or fewer than two in a single run: it would depend on
the luck of a few requests. A single run needs fewer, because the interval includes the differences between rounds.
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
"""The compared percentiles, by their names in `summary.json`."""


class Load(NamedTuple):
    client: str
    connections: int
    in_flight: int
    commit_delay_ms: float
    variant: str = ""
    """Factors without a column, such as `record_size=100`."""
    offered_of: str = ""
    """Open loop: the mode whose capacity the offered rate is a share of; otherwise empty."""
    offered_share: float = 0.0
    offered_per_s: float = 0.0
    """Open loop: offered requests per second; 0 in a closed loop and in the replay."""

    @property
    def open_loop(self) -> bool:
        """Return whether requests have fixed intended times, so that latency counts from these."""
        return self.client == REPLAY_CLIENT or self.offered_per_s > 0


class Cell(NamedTuple):
    mode: str
    load: Load


@attrs.frozen
class RunLatency:
    """The latency that the client of one run saw.

    Attributes:
        samples: the number of measured answers.
        p50_us, p99_us, p999_us: exact percentiles; in an open loop from the intended time.
        mean_us: from sent to answered, over all answers including the warm-up, like the broker's stamps.
        sent_p50_us, sent_p99_us, sent_p999_us: from the time of sending, without the client's delay.
        late_us: the delay of the median request when it was sent.
        growth: growth of the latency, in seconds per second. This and the last two lines are None in a closed loop.
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
        """Return a percentile of `PERCENTILES`; None if fewer than two samples lie beyond it, or it is unknown.

        Args:
            name: the name of the percentile, such as `p99`.
            is_from_sent: count from the time of sending, which is known in an open loop only.
        """
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
        if self.first_sent_ns is None or self.last_answered_ns is None:
            return 0.0
        return max(0, self.last_answered_ns - self.first_sent_ns) / 1e9

    @property
    def ablation(self) -> bool:
        return self.settings.get("experiment") == "ablation" or self.cell.mode in ABLATION_MODES

    @property
    def of_itself(self) -> bool:
        return self.settings.get("experiment") == SELF_EXPERIMENT

    @property
    def compared(self) -> bool:
        """Return whether this run counts in speed-ups: untraced, closed loop, neither ablation nor A/A."""
        return self.of_a_side and not self.traced and not self.cell.load.open_loop

    @property
    def of_a_side(self) -> bool:
        """Return whether this run belongs to a compared broker: neither ablation nor A/A."""
        return not self.ablation and not self.of_itself


def rate(runs: Sequence[Run]) -> float | None:
    """Return the requests per second over some runs: the sum of their requests over the sum of their times.

    Returns None if the runs took no time.
    """
    # Not the mean of rates: a short run would weigh as much as a long one.
    seconds = sum(run.seconds for run in runs)
    return sum(run.requests for run in runs) / seconds if seconds > 0 else None


def parse_object(text: str | None) -> dict[str, Any]:
    """Parse a JSON object from a text column. Return other content as `{"text": ...}`, and no text as `{}`."""
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        return {"text": text}
    return value if isinstance(value, dict) else {"text": value}


def enough_samples(samples: int, quantile: float, beyond: int = SAMPLES_BEYOND_MIN) -> bool:
    """Return whether at least `beyond` of the samples lie beyond a quantile."""
    # Integers: as a binary fraction, 1 - 0.9999 is too small, and would reject exactly 100,000 samples.
    return samples * round((1 - quantile) * 1_000_000) >= beyond * 1_000_000


def number(value: float | None) -> float | int | None:
    """Return a whole number as int, so that JSON shows it without a fraction; other values unchanged."""
    return int(value) if value is not None and float(value).is_integer() else value


def order(load: Load) -> tuple[bool, bool, str, str, float, int, int, float]:
    """Return the sort key of a load: native client, ordinary clients, open loops, replay."""
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
    """Map each variant to itself without the factors that all variants share."""
    parts = {variant: set(variant.split()) for variant in variants}
    common = set.intersection(*parts.values()) if parts else set()
    return {variant: " ".join(sorted(mine - common)) for variant, mine in parts.items()}
