"""Brokers of one machine that are killed under load have, when they are back, everything that they acknowledged.

See `campaign.py` for `CYCLES`, `LEDGER` and `SEED`.
"""

import contextlib
import shutil

import pytest

from tests.conftest import CAMPAIGN
from tests.crashes.broker_under_test import StartFailed
from tests.crashes.campaign import run_campaign
from tests.crashes.cluster_run import ClusterCounts, ClusterRun
from tests.crashes.scene import Violated

KIND = "kills in a cluster"
SUMMARY = (
    "{kills} kills of {killed_brokers} brokers: {acknowledged} acknowledged records, {moves} in transactions, "
    "{read_back} records read back"
)

pytestmark = [pytest.mark.faults, pytest.mark.kill]


def test_what_brokers_acknowledged_before_kills_is_there_after_them(tmp_path, record_property):
    def make_run(seed):
        return contextlib.nullcontext(ClusterRun(seed, tmp_path / f"run-{seed}"))

    record_property(CAMPAIGN, run_campaign(KIND, make_run, ClusterCounts, SUMMARY))


class ForgetfulRun(ClusterRun):
    """A run whose second broker loses its data at the stop in order."""

    def start(self):
        data = self.broker.data / "2"
        if self.broker.starts and data.is_dir():
            shutil.rmtree(data)
        super().start()


def test_a_broker_that_forgets_is_noticed(tmp_path):
    run = ForgetfulRun(0, tmp_path)
    with pytest.raises((Violated, StartFailed)):
        run.run(1)
    assert run.counts.kills
