"""A broker that is killed under load has, when it is started again, everything that it acknowledged.

See `campaign.py` for `CYCLES`, `LEDGER` and `SEED`.
"""

import contextlib

import pytest

from tests.conftest import CAMPAIGN
from tests.crashes.broker_under_test import StartFailed
from tests.crashes.campaign import run_campaign
from tests.crashes.kill_run import Counts, KillRun
from tests.crashes.ledger import KILLS
from tests.crashes.scene import Violated

KILLS_BEFORE_NOTICED_MAX = 30
SUMMARY = (
    "{kills} kills under load and {kills_in_recovery} during recovery: {acknowledged} acknowledged records, "
    "{read_back} records read back"
)

pytestmark = [pytest.mark.faults, pytest.mark.kill]


def test_what_was_acknowledged_before_a_kill_is_there_after_it(tmp_path, record_property):
    """Cases 1, 6, 7 and 9."""

    def make_run(seed):
        return contextlib.nullcontext(KillRun(seed, tmp_path / f"run-{seed}"))

    record_property(CAMPAIGN, run_campaign(KILLS, make_run, Counts, SUMMARY))


@pytest.mark.parametrize(
    "sabotage", ["acknowledges-before-the-write", "loses-the-last-frame", "forgets-producers", "gives-ids-again"]
)
def test_a_sabotaged_broker_is_noticed(tmp_path, sabotage):
    """By whichever check comes first: what was lost may be a record, a topic, or what recovery needs."""
    run = KillRun(0, tmp_path, variant=sabotage)
    with pytest.raises((Violated, StartFailed)):
        run.run(KILLS_BEFORE_NOTICED_MAX)
    assert run.counts.kills  # it worked until it was killed
