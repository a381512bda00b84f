"""The campaign itself: what is changed, that it reaches every reference, that a mutant is killed or named."""

import builtins
import importlib.util
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.mutants import forks
from tests.mutants.campaign import ROOT, Campaign, chance_of_so_few
from tests.mutants.equivalents import EQUIVALENT
from tests.mutants.forks import Job, limit_processor, run_forked
from tests.mutants.operators import Source
from tests.mutants.rooms import ROOMS
from tests.mutants.swapping import HITS, codes_of, live_functions, note_lines, noting_codes, swap

TEXT = '''
"""A module."""
LIMIT = 3


class Counter:
    """Counts."""

    def __init__(self, start=0):
        self.value = start

    @property
    def is_full(self):
        """Whether it is."""
        return self.value >= LIMIT and not self.is_open

    @property
    def is_open(self):
        return False

    def add(self, count):
        assert count > 0, "our mistake"
        self.value += count
        logger.info("added %d", count + 1)
        if count > LIMIT:
            raise ValueError("too many" + "!")

    def show(self, how):
        del how
        self.shown = json.dumps(list(zip(self.value, self.names, strict=True)), sort_keys=True)

    def adding(self):
        def add(count):
            return self.value + count

        return add
'''


@pytest.fixture
def source(tmp_path):
    (tmp_path / "made_up.py").write_text(TEXT, encoding="utf-8")
    return Source(tmp_path, "made_up.py")


@pytest.fixture
def module(source):
    spec = importlib.util.spec_from_file_location("made_up", source.file)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def changes(source):
    return {(it.function, it.change): it for it in source.mutations}


def test_every_operator_and_statement_is_changed_and_nothing_else(source):
    assert [(function.removeprefix("Counter."), change) for function, change in changes(source)] == [
        ("__init__", "self.value = start -> pass"),
        ("is_full", "return self.value >= LIMIT and (not self.is_open) -> return None"),
        ("is_full", "self.value >= LIMIT and (not self.is_open) -> self.value >= LIMIT or not self.is_open"),
        ("is_full", "without self.value >= LIMIT in self.value >= LIMIT and (not self.is_open)"),
        ("is_full", "without not self.is_open in self.value >= LIMIT and (not self.is_open)"),
        ("is_full", "self.value >= LIMIT -> self.value > LIMIT"),
        ("is_full", "not self.is_open -> self.is_open"),
        ("is_open", "False -> True"),
        ("add", "self.value += count -> self.value -= count"),
        ("add", "self.value += count -> pass"),
        ("add", "count > LIMIT -> count >= LIMIT"),
        (
            "show",
            "self.shown = json.dumps(list(zip(self.value, self.names, strict=True)), sort_keys=True) -> pass",
        ),
        ("adding", "return self.value + count -> return None"),
        ("adding", "self.value + count -> self.value - count"),
        ("adding", "return add -> return None"),
    ]


def mutate(source, name):
    found = changes(source)[name]
    codes = codes_of(source.compile_mutated(found))
    key = (source.file, found.function, found.first_line)
    return swap({key: codes[key]}, live_functions([source.file]))


def test_a_change_reaches_whoever_refers_to_the_function_already(source, module):
    class Special(module.Counter):
        pass

    counter = Special()
    table = {"add": counter.add}
    assert mutate(source, ("Counter.add", "self.value += count -> self.value -= count")) == 1
    with pytest.raises(NameError):  # it has no logger
        table["add"](2)
    assert counter.value == -2


def test_a_property_and_a_function_inside_a_function_are_changed(source, module):
    counter = module.Counter(1)
    assert mutate(source, ("Counter.is_open", "False -> True")) == 1
    assert counter.is_open
    assert mutate(source, ("Counter.adding", "self.value + count -> self.value - count")) == 1
    assert counter.adding()(3) == -2


def test_a_source_is_as_before_when_its_mutants_are_made(source):
    before = [it.name for it in source.mutations]
    for mutation in source.mutations:
        source.compile_mutated(mutation)
    assert [it.name for it in source.mutations] == before
    assert compile(source.tree, source.file, "exec").co_consts == compile(TEXT, source.file, "exec").co_consts


def test_of_the_lines_that_are_asked_for_those_that_run_are_noted(source, module):
    try:
        first = 1 + TEXT.splitlines().index("    def add(self, count):")
        asked_for = {first + after for after in (1, 3, 4, 5)}
        hits = note_lines(noting_codes({source: asked_for}), live_functions([source.file]))
        counter = module.Counter()
        hits.clear()
        with pytest.raises(NameError):  # it has no logger
            counter.add(1)
        assert hits == {("made_up.py", first + after) for after in (1, 3)}
    finally:
        delattr(builtins, HITS)


def test_a_fork_says_its_result_and_is_stopped_when_it_takes_too_long():
    before = os.getpid()
    jobs = [
        Job("quick", lambda folder: (folder.is_dir(), os.getpid() != before), 20.0),
        Job("slow", lambda _: time.sleep(60), 0.5),
        Job("broken", lambda _: 1 // 0, 20.0),
    ]
    assert {job.name: result for job, result, _ in run_forked(jobs, 2)} == {
        "quick": (True, True),
        "slow": None,
        "broken": None,
    }


def test_a_fork_that_takes_too_much_of_the_processor_or_nothing_of_it_is_stopped_before_its_time_is_over(monkeypatch):
    """Whether it waits itself, or for a process that does; one that works, or waits for one that does, goes on."""
    monkeypatch.setattr(forks, "IDLE_SECONDS_MAX", 0.7)

    def loop(_):
        limit_processor(0.5)
        while True:
            pass

    def poll(_):
        while True:
            time.sleep(0.05)

    def work(_):
        ends = time.process_time() + 1.2
        while time.process_time() < ends:
            pass
        return "done"

    in_a_process = [sys.executable, "-c", "import time\nwhile time.process_time() < 1.2: pass"]
    jobs = {
        "loops": loop,
        "waits": lambda _: threading.Event().wait(),
        "polls": poll,
        "waits for what waits": lambda _: subprocess.run(["sleep", "600"], check=False),
        "works": work,
        "waits for what works": lambda _: subprocess.run(in_a_process, check=False).returncode,
    }
    found = {
        job.name: (result, seconds) for job, result, seconds in run_forked([Job(*it, 600.0) for it in jobs.items()], 3)
    }
    assert {name: result for name, (result, _) in found.items()} == {
        "loops": None,
        "waits": None,
        "polls": None,
        "waits for what waits": None,
        "works": "done",
        "waits for what works": 0,
    }
    assert all(seconds < 600 for _, seconds in found.values())


def test_what_a_fork_started_ends_with_it():
    def start(_):
        return subprocess.Popen(["sleep", "60"]).pid

    ((_, pid, _),) = run_forked([Job("starts", start, 20.0)], 1)
    while Path(f"/proc/{pid}/status").exists() and "zombie" not in Path(f"/proc/{pid}/status").read_text():
        time.sleep(0.01)


@pytest.mark.parametrize("room", ROOMS.values(), ids=ROOMS)
def test_a_room_has_sources_tests_and_a_floor(room):
    paths = room.source_paths(ROOT)
    assert paths
    assert all((ROOT / it).exists() for it in (*paths, *room.tests, *room.left_out))
    assert 0.5 < room.floor <= 1


def test_every_equivalent_is_a_mutant_of_a_room_and_has_a_reason():
    paths = {path for room in ROOMS.values() for path in room.source_paths(ROOT)}
    names = {it.name for path in paths for it in Source(ROOT, path).mutations}
    assert set(EQUIVALENT) - names == set()
    assert all(EQUIVALENT.values())


def test_a_sample_fails_only_when_so_few_would_be_killed_once_in_a_thousand_samples():
    assert chance_of_so_few(60, 60, 0.9) == pytest.approx(1)
    assert chance_of_so_few(46, 60, 0.9) > 0.001
    assert chance_of_so_few(44, 60, 0.9) < 0.001


def test_a_mutant_that_is_not_decided_when_the_time_is_over_counts_as_nothing(monkeypatch):
    quota = Campaign(ROOMS["quotas"], sample=4, seed="x", seconds_max=1.0)
    monkeypatch.setattr(quota, "_tests_of", lambda *_: [])
    monkeypatch.setattr(quota, "_killer", lambda *_: time.sleep(60))
    began = time.monotonic()
    quota._kill([], {})
    assert time.monotonic() - began < 20
    assert quota.fates == []
    assert not quota.has_passed(is_sample=True)


def test_a_campaign_kills_what_tests_look_at_and_names_what_they_do_not(tmp_path):
    """In a process of its own, as pytest runs once in each."""
    program = f"""
import sys
from pathlib import Path
from tests.mutants import campaign
from tests.mutants.rooms import Room
room = Room("one", ("pipeline_broker/quotas/token_bucket.py",), ("{tmp_path}/test_some.py",), 0.99)
campaign.ROOT = Path("{ROOT}")
sys.argv[1:] = []
import argparse
arguments = argparse.Namespace(sample=None, seed="x", only="", workers=2, killers=1, seconds_max=100.0)
sys.exit(campaign.run_room(room, arguments))
"""
    (tmp_path / "test_some.py").write_text(
        "from pipeline_broker.quotas.token_bucket import TokenBucket\n"
        "from pipeline_broker.quotas.rate import Windows\n"
        "def test_a_debt():\n"
        "    bucket = TokenBucket(Windows(11, 1000))\n"
        "    bucket.take(10, 1.0, 0)\n"
        "    assert bucket.tokens(1.0, 0) == 1\n",
        encoding="utf-8",
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 1, result.stderr
    assert "TokenBucket.take: self.tokens(limit, now_ms) - count -> " not in result.stderr
    assert "SURVIVES pipeline_broker/quotas/token_bucket.py" in result.stderr
    assert "TokenBucket.is_full" in result.stderr
    assert "one: " in result.stdout
