"""The request costs of an object store under each load, from the traced rounds.

Prices are the user's, by default those of Amazon's price list. A GB is 10^9 bytes of committed record batches. Storage
itself is left out: it costs the same in every mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from spark_analysis.interval import Estimate, geometric_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spark_analysis.cells import Cell, Run

GB: Final = 1e9
MONTH_SECONDS: Final = 30 * 86_400
PUT_DOLLARS, GET_DOLLARS = 5.0, 0.4
"""Prices of a million requests: Amazon S3 Standard, us-east-1, list prices of 2026."""


@attrs.frozen
class Prices:
    """Prices of a million requests, in dollars. LIST costs as much as PUT; DELETE is free."""

    put: float = PUT_DOLLARS
    get: float = GET_DOLLARS


DEFAULT_PRICES: Final = Prices()


@attrs.frozen
class StoreRun:
    run: int
    puts: int
    gets: int
    unsure: int
    failed: int
    put_bytes: int
    put_p50_us: float | None
    put_p99_us: float | None
    window_us: float
    written_bytes: int
    produced: int

    def dollars(self, prices: Prices) -> float:
        return (self.puts * prices.put + self.gets * prices.get) / 1e6


@attrs.frozen
class StoreCost:
    """The costs of one cell over its traced rounds.

    Attributes:
        runs: the traced rounds.
        puts_per_s, requests_per_put, puts_per_gb, dollars_per_gb, dollars_per_month: geometric means over the rounds
            with values above 0; None if no round has one. A month is priced at the rate of the rounds.
    """

    runs: tuple[StoreRun, ...]
    puts_per_s: Estimate | None
    requests_per_put: Estimate | None
    puts_per_gb: Estimate | None
    dollars_per_gb: Estimate | None
    dollars_per_month: Estimate | None

    @property
    def puts(self) -> int:
        return sum(run.puts for run in self.runs)

    @property
    def gets(self) -> int:
        return sum(run.gets for run in self.runs)


def store_costs(runs: Iterable[Run], found: Mapping[int, StoreRun], prices: Prices) -> dict[Cell, StoreCost]:
    """Return the costs of each cell that has sent requests to a store, in the order of the runs."""
    by_cell: dict[Cell, list[StoreRun]] = {}
    for run in runs:
        if run.number in found:
            by_cell.setdefault(run.cell, []).append(found[run.number])
    return {cell: _cost(tuple(rows), prices) for cell, rows in by_cell.items()}


def _cost(runs: tuple[StoreRun, ...], prices: Prices) -> StoreCost:
    def over(value: Callable[[StoreRun], float], by: Callable[[StoreRun], float]) -> Estimate | None:
        return geometric_interval([value(run) / by(run) for run in runs if by(run) > 0 and value(run) > 0])

    return StoreCost(
        runs=runs,
        puts_per_s=over(lambda run: run.puts, lambda run: run.window_us / 1e6),
        requests_per_put=over(lambda run: run.produced, lambda run: run.puts),
        puts_per_gb=over(lambda run: run.puts, lambda run: run.written_bytes / GB),
        dollars_per_gb=over(lambda run: run.dollars(prices), lambda run: run.written_bytes / GB),
        dollars_per_month=over(lambda run: run.dollars(prices) * MONTH_SECONDS, lambda run: run.window_us / 1e6),
    )
