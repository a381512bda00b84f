"""A broker whose machine loses power under load has, when both are back, everything that it acknowledged.

See `campaign.py` for `CYCLES`, `LEDGER` and `SEED`. What must not survive a power cut is tried as well: a check that
finds nothing wrong with a broker that does not sync is blind.
"""

import contextlib

import pytest

from tests.conftest import CAMPAIGN
from tests.crashes.broker_under_test import StartFailed
from tests.crashes.campaign import run_campaign
from tests.crashes.power_cut_run import CutCounts, PowerCutRun
from tests.crashes.scene import Violated
from tests.required import require_tool

CUTS = "power cuts"
CUTS_BEFORE_NOTICED_MAX = 30
SUMMARY = (
    "{kills} power cuts under load and {kills_in_recovery} during recovery: {acknowledged} acknowledged records, "
    "{read_back} records read back; at risk {bytes_at_risk} bytes and {names_at_risk} names, of which "
    "{bytes_kept} and {names_kept} survived"
)

pytestmark = [pytest.mark.faults, pytest.mark.power_cuts]


def test_what_was_acknowledged_before_a_power_cut_is_there_after_it(mount_forgetful, tmp_path, record_property):
    """Case 11."""

    @contextlib.contextmanager
    def make_run(seed):
        with mount_forgetful(tmp_path / f"disk-{seed}") as mount:
            yield PowerCutRun(seed, tmp_path / f"run-{seed}", mount)

    record_property(CAMPAIGN, run_campaign(CUTS, make_run, CutCounts, SUMMARY))


@pytest.mark.parametrize(
    ("variant", "flush"),
    [
        (None, "os"),
        ("syncs-no-data", "always"),
        ("syncs-no-names", "always"),
        ("acknowledges-before-the-sync", "always"),
    ],
)
def test_a_broker_that_does_not_sync_is_noticed(mount_forgetful, tmp_path, variant, flush):
    """Case 14."""
    with mount_forgetful(tmp_path / "disk") as mount:
        run = PowerCutRun(0, tmp_path / "run", mount, variant=variant, flush=flush, style="nothing")
        with pytest.raises((Violated, StartFailed, AssertionError)):
            run.run(CUTS_BEFORE_NOTICED_MAX)
        assert run.counts.kills  # it worked until the power went


def test_a_broker_whose_syncs_are_swallowed_is_noticed(mount_forgetful, tmp_path):
    """eatmydata answers every sync without one; the broker cannot know, and the power cut shows it. Case 38."""
    with mount_forgetful(tmp_path / "disk") as mount:
        prefix = (require_tool("eatmydata"),)
        run = PowerCutRun(0, tmp_path / "run", mount, prefix=prefix, style="nothing")
        with pytest.raises((Violated, StartFailed, AssertionError)):
            run.run(CUTS_BEFORE_NOTICED_MAX)
        assert run.counts.kills
