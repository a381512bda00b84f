"""A campaign: runs until so many cycles are done, with a ledger from which it goes on.

Rules of this file: `CYCLES` is the number of cycles (5 unless set), `CYCLES_PER_RUN` to a run; `LEDGER` names the
ledger; `SEED` is the seed of the first run. A failure ends the campaign and prints the seed of its run.
"""

import itertools
import os
import time

import attrs

from tests.crashes.ledger import CYCLES, HELD, Ledger, current_commit

CYCLES_PER_RUN = 5


def run_noted(ledger, seed, run, *arguments):
    """Run, and note in the ledger what came of it; a failure is raised, and says where its directory is."""
    try:
        run.run(*arguments)
    except Exception as error:
        ledger.append(seed=seed, outcome=f"{type(error).__name__}: {error}"[:2000], **attrs.asdict(run.counts))
        print(f"seed {seed}, after {run.counts.kills} kills: what is left is in {run.broker.directory}")
        raise
    ledger.append(seed=seed, outcome=HELD, **attrs.asdict(run.counts))


def run_campaign(kind, make_run, counts_type, summary, cycles_max=CYCLES):
    """`make_run(seed)` gives a context manager of a run; `summary` is a format of the counts' totals, and returned."""
    ledger = Ledger(os.environ.get("LEDGER"), current_commit(), kind)
    seeds = (seed for seed in itertools.count(int(os.environ.get("SEED", "0"))) if seed not in ledger.seeds)
    began = time.monotonic()
    while (left := cycles_max - ledger.total("kills")) > 0:
        seed, cycles = next(seeds), min(CYCLES_PER_RUN, left)
        with make_run(seed) as run:
            run_noted(ledger, seed, run, cycles)
    totals = {field.name: ledger.total(field.name) for field in attrs.fields(counts_type)}
    lost = ledger.violated_seeds
    text = f"{summary.format(**totals)}, {len(ledger.lines)} runs, {len(lost)} violated"
    print(f"\n{text}, {time.monotonic() - began:.0f} s")
    assert lost == []
    return text
