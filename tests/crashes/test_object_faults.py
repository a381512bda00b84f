"""A broker that keeps everything in a store loses nothing, whatever becomes of it, of its machine and of the store.

See `campaign.py` for `CYCLES`, `LEDGER` and `SEED`; `make object-faults` runs all of it at length.
"""

import contextlib
import functools
import itertools
import os
import shutil
import time

import attrs
import pytest

from tests import kafka_tools
from tests.conftest import CAMPAIGN
from tests.crashes import broker_under_test, campaign
from tests.crashes.broker_under_test import StartFailed
from tests.crashes.exactly_once.run import BROKER, JavaCopier
from tests.crashes.exactly_once.run import Counts as CopyCounts
from tests.crashes.kill_run import Counts
from tests.crashes.ledger import HELD, Ledger, current_commit
from tests.crashes.on_objects.exactly_once_run import ObjectRun
from tests.crashes.on_objects.object_kill_run import ObjectKillRun
from tests.crashes.on_objects.power_cut_run import ObjectPowerCutRun
from tests.crashes.on_objects.proxied_run import ProxiedCounts, ProxiedRun
from tests.crashes.on_objects.store_cut_run import StoreCutCounts, StoreCutRun
from tests.crashes.on_objects.stores import FILES, SERVER, VERSITYGW, kinds, open_store
from tests.crashes.on_objects.zombie_run import ZombieCounts, ZombieRun
from tests.crashes.power_cut_run import CutCounts
from tests.crashes.scene import Violated

READ = "{acknowledged} acknowledged records, {read_back} records read back"
KILLS = "kills of a broker on objects"
TAKEOVERS = "takeovers"
STORE_CUTS = "cuts of a store"
SPOILED = "spoiled answers of a store"
POWER_CUTS = "power cuts under a store"
COPIES = "copies on objects"
COPY_SECONDS_MIN, COPY_SECONDS_MAX = 2.0, 60.0
COPY_SUMMARY = (
    "kills of a broker on objects, {kills_of_the_broker} together: {records} records once, {committed} transactions"
)
NOTICED_MAX = 30
"""Cycles within which a sabotaged broker is noticed."""

CYCLES = int(os.environ.get("CYCLES", "1"))  # each of them takes seconds

run_campaign = functools.partial(campaign.run_campaign, cycles_max=CYCLES)
pytestmark = [pytest.mark.faults, pytest.mark.object_faults]


def on(stores, run_type, directory, *, has_proxy=False, **options):
    """Makes runs, each on a new store of one of these kinds."""

    @contextlib.contextmanager
    def make_run(seed):
        kind = stores[seed % len(stores)]
        with open_store(kind, seed, directory / f"store-{seed}", has_proxy=has_proxy) as store:
            yield run_type(seed, directory / f"run-{seed}" / "broker", store, **options)

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


def test_a_store_on_a_disk_without_power_has_all_that_was_acknowledged(mount_forgetful, tmp_path, record_property):
    risked = "at risk {bytes_at_risk} bytes and {names_at_risk} names, of which {bytes_kept} and {names_kept} survived"
    summary = f"{{kills}} power cuts under a store and {{kills_in_recovery}} during recovery: {READ}; {risked}"

    @contextlib.contextmanager
    def make_run(seed):
        with mount_forgetful(tmp_path / f"disk-{seed}") as mount:
            yield ObjectPowerCutRun(seed, tmp_path / f"run-{seed}", mount)

    record_property(CAMPAIGN, run_campaign(POWER_CUTS, make_run, CutCounts, summary))


@pytest.mark.parametrize(
    ("sabotage", "run_type"),
    [("acknowledges-what-is-not-stored", ObjectKillRun), ("takes-another's-slot-for-its-own", ZombieRun)],
)
def test_a_sabotaged_broker_is_noticed(tmp_path, sabotage, run_type, monkeypatch):
    monkeypatch.setattr(broker_under_test, "END_SECONDS_MAX", 5.0)  # one that does not learn of its end waits for ever
    with on([FILES], run_type, tmp_path, variant=sabotage)(0) as run:
        with pytest.raises((Violated, StartFailed, AssertionError)):
            run.run(NOTICED_MAX)
        assert run.history.acknowledged_count  # it worked


def test_copies_are_exactly_once_over_takeovers(tmp_path, record_property):
    """For so many seconds as there are cycles; each of the four clients copies."""
    java = None
    if CYCLES > 1 and not kafka_tools.what_is_missing("javac"):
        (tmp_path / "java").mkdir()
        java = JavaCopier(tmp_path / "java")
    ledger = Ledger(os.environ.get("LEDGER"), current_commit(), COPIES)
    seeds = (seed for seed in itertools.count(int(os.environ.get("SEED", "0"))) if seed not in ledger.seeds)
    began, takeovers = time.monotonic(), 0
    while (left := max(CYCLES, COPY_SECONDS_MIN) - (time.monotonic() - began)) > 0:
        seed = next(seeds)
        with open_store(FILES, seed, tmp_path / f"store-{seed}") as store:
            run = ObjectRun(seed, tmp_path / f"run-{seed}", java, store, strikes=[BROKER])
            try:
                with run:
                    run.run(min(left, COPY_SECONDS_MAX))
            except Exception as error:
                ledger.append(seed=seed, outcome=f"{type(error).__name__}: {error}"[:2000], **attrs.asdict(run.counts))
                print(f"seed {seed}: what is left is in {run.directory}")
                raise
        takeovers += run.takeovers
        ledger.append(seed=seed, outcome=HELD, takeovers=run.takeovers, **attrs.asdict(run.counts))
        shutil.rmtree(run.directory)
    totals = {field.name: ledger.total(field.name) for field in attrs.fields(CopyCounts)}
    text = f"{ledger.total('takeovers')} takeovers and {COPY_SUMMARY.format(**totals)}"
    print(f"\n{text}")
    assert totals["records"]
    assert totals["kills_of_the_broker"]
    record_property(CAMPAIGN, text)
