"""The tables of docs/evidence/results.md, from the figures that `compare` printed (docs/evidence/results.csv).

A row of the file is a side under a load. An empty cell was not shown: fewer than ten samples lie beyond a percentile, a
side did not keep the pace of an open loop, or the row has no ratio.
"""

import csv
from collections.abc import Callable
from pathlib import Path

__all__ = ["RESULTS", "results"]

FILE = Path(__file__).parent.parent / "docs/evidence/results.csv"
RESULTS = ("native client", "equal load", "ordinary client", "slower disk", "ablation", "itself", "object store")
OTHER_BROKERS = ("kafka", "kafka-synced")


def _rate(row: dict[str, str]) -> str:
    return f"{int(row['per_s']):,}" if row["per_s"] else "too slow"


def _ratio(row: dict[str, str], prefix: str = "") -> str:
    if not row[f"{prefix}ratio"]:
        return ""
    interval = f"{row[f'{prefix}ratio']}x ({row[f'{prefix}low']} to {row[f'{prefix}high']})"
    return f"pipelined over it {interval}" if row["side"] in OTHER_BROKERS else interval


_Cell = Callable[[dict[str, str]], str]
_SIDE: dict[str, _Cell] = {
    "side": lambda row: row["side"],
    "requests/s": _rate,
    "p50 ms": lambda row: row["p50_ms"],
    "p99 ms": lambda row: row["p99_ms"],
}
_CLOSED: dict[str, _Cell] = {"load": lambda row: row["load"], **_SIDE, "ratio of rates": _ratio}
COLUMNS: dict[str, dict[str, _Cell]] = {
    "equal load": {
        "load": lambda row: f"{row['client']} {row['load']}",
        "due/s": lambda row: f"{int(row['due_per_s']):,}",
        **_SIDE,
        "ratio of p50": _ratio,
        "ratio of p99": lambda row: _ratio(row, "p99_"),
    },
    "ordinary client": {"client": lambda row: row["client"].removeprefix("confluent-kafka "), **_CLOSED},
    "slower disk": {"delay": lambda row: f"{row['delay_ms']} ms", **_CLOSED},
    "ablation": {"delay": lambda row: f"{row['delay_ms']} ms", **_CLOSED},
}


def results(name: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the heading and the rows of a table."""
    columns = COLUMNS.get(name, _CLOSED)
    with FILE.open(encoding="utf-8", newline="") as file:
        found = [row for row in csv.DictReader(file) if row["table"] == name]
    return tuple(columns), [tuple(cell(row) for cell in columns.values()) for row in found]
