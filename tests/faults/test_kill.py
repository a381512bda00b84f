"""A broker that is killed under load has, when it is started again, everything that it acknowledged.

`CYCLES` is the number of kills under load (10 unless set), five to a run; `LEDGER` names a file from which a campaign
goes on after it was interrupted; `SEED` is the seed of the first run. A failure prints the seed of its run.
"""

import itertools
import os
import time

import attrs
import pytest

from tests.faults.broker_under_test import StartFailed
from tests.faults.kill_run import Counts, KillRun
from tests.faults.ledger import CYCLES, HELD, Ledger, current_commit
from tests.faults.scene import Violated

KILLS_PER_RUN = 5
KILLS_BEFORE_NOTICED_MAX = 10

pytestmark = [pytest.mark.faults, pytest.mark.kill]


def test_what_was_acknowledged_before_a_kill_is_there_after_it(tmp_path):
    ledger = Ledger(os.environ.get("LEDGER"), current_commit())
    seeds = (seed for seed in itertools.count(int(os.environ.get("SEED", "0"))) if seed not in ledger.seeds)
    began = time.monotonic()
    while (left := CYCLES - ledger.total("kills")) > 0:
        seed, kills = next(seeds), min(KILLS_PER_RUN, left)
        run = KillRun(seed, tmp_path / f"run-{seed}")
        try:
            run.run(kills)
        except Exception as error:
            ledger.append(seed=seed, outcome=f"{type(error).__name__}: {error}"[:2000], **attrs.asdict(run.counts))
            print(f"seed {seed}, after {run.counts.kills} kills: the data is in {run.broker.directory}")
            raise
        ledger.append(seed=seed, outcome=HELD, **attrs.asdict(run.counts))
    totals = {field.name: ledger.total(field.name) for field in attrs.fields(Counts)}
    lost = [line["seed"] for line in ledger.lines if line["outcome"] != HELD]
    print(
        "\n{kills} kills under load and {kills_in_recovery} during recovery: {acknowledged} acknowledged records, "
        "{read_back} records read back, {runs} runs, {lost} violated, {seconds:.0f} s".format(
            **totals, runs=len(ledger.lines), lost=len(lost), seconds=time.monotonic() - began
        )
    )
    assert lost == []


@pytest.mark.parametrize(
    ("sabotage", "noticed_by"),
    [
        ("acknowledges-before-the-write", "acknowledged at offset"),
        ("loses-the-last-frame", "acknowledged at offset"),
        ("forgets-producers", "is there twice"),
        ("gives-ids-again", "given out twice"),
    ],
)
def test_a_sabotaged_broker_is_noticed(tmp_path, sabotage, noticed_by):
    run = KillRun(0, tmp_path, variant=sabotage)
    with pytest.raises((Violated, StartFailed), match=noticed_by):
        run.run(KILLS_BEFORE_NOTICED_MAX)
