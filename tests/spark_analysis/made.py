"""Runs and comparisons of plain numbers, as Spark would have computed them: no traces, no JVM."""

from __future__ import annotations

import itertools
import random

from spark_analysis.cells import Cell, Load, Run, RunLatency
from spark_analysis.figures import Figures, StageFigures
from spark_analysis.summary import Comparison

REQUESTS = 20_000
SIDES = ("classic", "pipelined")
_NUMBERS = itertools.count(1)


def load(number: int = 1, **columns) -> Load:
    """Return a different load for each number."""
    return Load(**{"client": "raw", "connections": number, "in_flight": 5, "commit_delay_ms": 0.0, **columns})


def run(of: Load, round_number: int, side: int, rate: float = 1000.0, *, p99_us: float = 5000.0, **columns) -> Run:
    """Return an untraced run with this rate (requests per second) and p99; p50 is a fifth of it, p99.9 twice."""
    waited = {"samples": REQUESTS, "p50_us": p99_us / 5, "p99_us": p99_us, "p999_us": 2 * p99_us, "mean_us": p99_us / 4}
    waited |= columns.pop("waited", {})
    mode = columns.pop("mode", SIDES[side] if side < 2 else "kafka")
    return Run(
        **{
            "number": next(_NUMBERS),
            "round": round_number,
            "traced": False,
            "side": side,
            "cell": Cell(mode, of),
            "flush": "always",
            "settings": {"experiment": "grid"},
            "machine": {},
            "client_cpu_share": 0.4,
            "lost_rows": 0,
            "requests": REQUESTS,
            "first_sent_ns": 0,
            "last_answered_ns": round(REQUESTS / rate * 1e9),
            "latency": RunLatency(**waited),
            **columns,
        }
    )


def pairs(of: Load, gains, drawn: random.Random | None = None, spread: float = 0.0, **columns) -> list[Run]:
    """Return a round for each gain, by which side 1 is faster and has a lower latency; runs differ by chance."""
    found = []
    for place, gain in enumerate(gains):
        for side in (0, 1):
            luck = 1.0 if drawn is None else drawn.lognormvariate(0, spread)
            waits = 1.0 if drawn is None else drawn.lognormvariate(0, spread)
            made = gain if side else 1.0
            found.append(run(of, place, side, 1000 * made * luck, p99_us=5000 / made * waits, **columns))
    return found


def comparison(runs, stages=None, **more) -> Comparison:
    """Return the comparison of such runs."""
    return Comparison(Figures(tuple(runs), {}, stages or {}, (), more.pop("commits", {}), {}, (), **more))


def stage_figures(parts_us) -> dict[str, StageFigures]:
    """Return Kafka's stages of a traced run with these means of the broker's parts, in order."""
    queue, handler, commit, other, order, response, send = parts_us
    means = {
        "RequestQueue": queue,
        "Local": handler,
        "Remote": commit + other,
        "CommitWait": commit,
        "ResponseOrderWait": order,
        "ResponseQueue": order + response,
        "ResponseSend": send,
        "Total": sum(parts_us),
    }
    return {
        name: StageFigures(REQUESTS, mean, mean, mean, 2 * mean, 2 * mean, 2 * mean) for name, mean in means.items()
    }
