"""Brokers of a machine that loses power under load have, when they are back, everything that they acknowledged.

See `campaign.py` for `CYCLES`, `LEDGER` and `SEED`.
"""

import contextlib

import pytest

from tests.conftest import CAMPAIGN
from tests.crashes.broker_under_test import StartFailed
from tests.crashes.campaign import run_campaign
from tests.crashes.cluster_cut_run import ClusterCutCounts, ClusterCutRun
from tests.crashes.scene import Violated

KIND = "power cuts of a cluster"
CUTS_BEFORE_NOTICED = 2
SUMMARY = (
    "{kills} power cuts of three brokers under load and {kills_in_recovery} during recovery: {acknowledged} "
    "acknowledged records, {moves} in transactions, {read_back} records read back; at risk {bytes_at_risk} bytes and "
    "{names_at_risk} names, of which {bytes_kept} and {names_kept} survived"
)

pytestmark = [pytest.mark.faults, pytest.mark.power_cuts]


def test_what_a_cluster_acknowledged_before_a_power_cut_is_there_after_it(mount_forgetful, tmp_path, record_property):
    """Case 11."""

    @contextlib.contextmanager
    def make_run(seed):
        with mount_forgetful(tmp_path / f"disk-{seed}") as mount:
            yield ClusterCutRun(seed, tmp_path / f"run-{seed}", mount)

    record_property(CAMPAIGN, run_campaign(KIND, make_run, ClusterCutCounts, SUMMARY))


def test_a_cluster_that_does_not_sync_is_noticed(mount_forgetful, tmp_path):
    """Case 14."""
    with mount_forgetful(tmp_path / "disk") as mount:
        run = ClusterCutRun(0, tmp_path / "run", mount, flush="os", style="nothing")
        with pytest.raises((Violated, StartFailed, AssertionError)):
            run.run(CUTS_BEFORE_NOTICED)
        assert run.counts.kills
