"""The tables of docs/evidence/results.md, from the kept runs beside it (`scripts/keep_run.py`).

A row is a side under a load. A cell is empty if fewer than ten samples lie beyond a percentile, a side did not keep the
pace of an open loop, or the row has no ratio.
"""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["RESULTS", "results"]

EVIDENCE = Path(__file__).parent.parent / "docs/evidence"
SUMMARY = EVIDENCE / "results-run/summary.json"
STORE = EVIDENCE / "results-store.csv"
Row = dict[str, Any]
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
LOAD = ("client", "connections", "in_flight", "commit_delay_ms", "variant")


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) or 0 for name in LOAD)


def _load(row: Row) -> str:
    if row["client"].startswith("confluent-kafka"):
        return f"{row['connections']} producer{'s' if row['connections'] > 1 else ''}"
    return f"{row['connections']} x {row['in_flight']} {row.get('variant', '')}".rstrip()


def _ratio(row: Row | None, word: str = "") -> str:
    if row is None or row["low"] is None:
        return ""
    ratio, low, high = (_figure(row.get(name, row.get("speedup"))) for name in ("ratio", "low", "high"))
    return f"{word}{ratio}x ({low} to {high})"


def _figure(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _closed(summary: Row, is_shown: Callable[[Row], bool], *before: tuple[str, Callable[[Row], str]]) -> Table:
    over = {"pipelined": {_key(row): row for row in summary["speedups"]}}
    for row in summary.get("over_others", ()):
        over.setdefault(row["mode"], {})[_key(row)] = row
    rows = []
    for cell in filter(is_shown, summary["cells"]):
        mode = cell["mode"]
        ratio = _ratio(over.get(mode, {}).get(_key(cell)), "" if mode == "pipelined" else "pipelined over it ")
        rows.append((*(show(cell) for _, show in before), *_sides(cell), ratio))
    return (*(name for name, _ in before), "load", "side", "requests/s", "p50 ms", "p99 ms", "ratio of rates"), rows


def _sides(cell: Row) -> tuple[str, ...]:
    return _load(cell), cell["mode"], f"{cell['requests_per_s']:,.0f}", _ms(cell["p50_ms"]), _ms(cell["p99_ms"])


def _equal_load(summary: Row) -> Table:
    rows = []
    for entry in summary["equal_load"]:
        name = f"{entry['client']} {_load(entry) if entry['in_flight'] else entry['connections']}"
        if entry.get("offered_of"):
            name += f", {entry['offered_share']:.0%} of {entry['offered_of']}"
        for side in entry["sides"]:
            is_compared, kept = side["side"] == 1, side["kept_pace"]
            rows.append(
                (
                    name,
                    f"{entry['offered_per_s']:,.0f}" if entry.get("offered_per_s") else "",
                    side["mode"],
                    *(_ms(side[each] and side[each]["value"]) if kept else "" for each in ("p50_ms", "p99_ms")),
                    "" if kept else "too slow",
                    *(_ratio(entry[each]) if is_compared and entry[each] else "" for each in ("p50", "p99")),
                )
            )
    return ("load", "due/s", "side", "p50 ms", "p99 ms", "pace", "ratio of p50", "ratio of p99"), rows


def _ablation(summary: Row) -> Table:
    over = {(row["mode"], _key(row)): row for row in summary.get("over_classic", ())}
    rows = [
        (f"{cell['commit_delay_ms']:g} ms", *_sides(cell), _ratio(over.get((cell["mode"], _key(cell)))))
        for cell in summary["ablation"]
    ]
    return ("delay", "load", "side", "requests/s", "p50 ms", "p99 ms", "ratio of rates"), rows


def _itself(summary: Row) -> Table:
    loads = summary["self"]["loads"]
    return ("load", "ratio of rates"), [(_load({**row, "variant": ""}), _ratio(row)) for row in loads]


def _store(_: Row) -> Table:
    with STORE.open(encoding="utf-8", newline="") as file:
        heading, *rows = csv.reader(file)
    return tuple(heading), [tuple(row) for row in rows]


def _is_native(cell: Row) -> bool:
    is_open = "offered_per_s" in cell or "offered_of" in cell
    return cell["client"] == "raw" and not is_open and "self" not in cell.get("variant", "")


_TABLES: dict[str, Callable[[Row], Table]] = {
    "native client": lambda it: _closed(it, lambda cell: _is_native(cell) and not cell["commit_delay_ms"]),
    "equal load": _equal_load,
    "ordinary client": lambda it: _closed(
        it,
        lambda cell: cell["client"].startswith("confluent-kafka"),
        ("client", lambda cell: cell["client"].removeprefix("confluent-kafka ")),
    ),
    "readers": lambda it: _closed(it, lambda cell: cell["client"] == "raw-reads"),
    "slower disk": lambda it: _closed(
        it,
        lambda cell: _is_native(cell) and cell["commit_delay_ms"] > 0,
        ("delay", lambda cell: f"{cell['commit_delay_ms']:g} ms"),
    ),
    "ablation": _ablation,
    "itself": _itself,
    "object store": _store,
}
RESULTS = tuple(_TABLES)


def results(name: str) -> Table:
    """Return the heading and the rows of a table."""
    return _TABLES[name](json.loads(SUMMARY.read_text(encoding="utf-8")))
