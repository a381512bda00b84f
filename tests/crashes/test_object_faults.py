"""A broker that keeps everything in a store loses nothing, whatever becomes of it, of its machine and of the store.

See `campaign.py` for `CYCLES`, `LEDGER` and `SEED`; `make object-faults` runs all of it at length.
"""

import contextlib
import functools
import os

import pytest

from tests.conftest import CAMPAIGN
from tests.crashes import campaign
from tests.crashes.kill_run import Counts
from tests.crashes.on_objects.object_kill_run import ObjectKillRun
from tests.crashes.on_objects.proxied_run import ProxiedCounts, ProxiedRun
from tests.crashes.on_objects.store_cut_run import StoreCutCounts, StoreCutRun
from tests.crashes.on_objects.stores import FILES, SERVER, VERSITYGW, kinds, open_store
from tests.crashes.on_objects.zombie_run import ZombieCounts, ZombieRun

READ = "{acknowledged} acknowledged records, {read_back} records read back"
KILLS = "kills of a broker on objects"
TAKEOVERS = "takeovers"
STORE_CUTS = "cuts of a store"
SPOILED = "spoiled answers of a store"

CYCLES = int(os.environ.get("CYCLES", "1"))  # each of them takes seconds

run_campaign = functools.partial(campaign.run_campaign, cycles_max=CYCLES)
pytestmark = [pytest.mark.faults, pytest.mark.object_faults]


def on(stores, run_type, directory, *, has_proxy=False):
    """Makes runs, each on a new store of one of these kinds."""

    @contextlib.contextmanager
    def make_run(seed):
        kind = stores[seed % len(stores)]
        with open_store(kind, seed, directory / f"store-{seed}", has_proxy=has_proxy) as store:
            yield run_type(seed, directory / f"run-{seed}" / "broker", store)

    return make_run


def test_a_killed_broker_goes_on_with_an_empty_directory(tmp_path, record_property):
    summary = f"{{kills}} kills with an emptied directory and {{kills_in_recovery}} during recovery: {READ}"
    make_run = on(kinds(FILES, SERVER, VERSITYGW), ObjectKillRun, tmp_path)
    record_property(CAMPAIGN, run_campaign(KILLS, make_run, Counts, summary))


def test_an_owner_that_was_stopped_acknowledges_nothing_behind_a_takeover(tmp_path, record_property):
    summary = f"{{kills}} takeovers, {{by_standbys}} by standbys, {{kills_in_recovery}} killed in one: {READ}"
    make_run = on(kinds(FILES, SERVER, VERSITYGW), ZombieRun, tmp_path)
    record_property(CAMPAIGN, run_campaign(TAKEOVERS, make_run, ZombieCounts, summary))


def test_a_store_may_be_killed_or_held_with_requests_on_their_way(tmp_path, record_property):
    outages = "{kills} outages of a store, {held} of them held, {outage_ms} ms in all"
    summary = f"{outages}, {{kills_of_the_broker}} kills of the broker: {READ}"
    make_run = on(kinds(SERVER, VERSITYGW), StoreCutRun, tmp_path)
    record_property(CAMPAIGN, run_campaign(STORE_CUTS, make_run, StoreCutCounts, summary))


def test_answers_of_a_store_may_be_lost_late_and_doubled(tmp_path, record_property):
    spoiled = "{lost} requests or answers lost, {late} late, {doubled} doubled, {refused} refused"
    summary = f"{spoiled}, {{kills}} kills with an emptied directory: {READ}"
    make_run = on(kinds(SERVER, VERSITYGW), ProxiedRun, tmp_path, has_proxy=True)
    record_property(CAMPAIGN, run_campaign(SPOILED, make_run, ProxiedCounts, summary))
