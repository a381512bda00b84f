"""Both modes on an object store: journals are in it, traces record its settings, and its objects are deleted."""

import json

import pytest

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.measure.experiment.broker_process import ExperimentError
from pipeline_broker.measure.experiment.compare import CompareOptions, run_compare
from pipeline_broker.measure.experiment.compared_store import ComparedStore
from pipeline_broker.measure.experiment.fleet import BrokerDefaults
from pipeline_broker.measure.experiment.plan import STORE_PROFILES, Profile, Request
from pipeline_broker.objects.opening import open_store
from pipeline_broker.traces import ring_file
from tests.objects import s3_servers

SHORT = Profile(
    rounds=1,
    turns=1,
    producers=(),
    readers=(),
    pairs=(),
    replay_whole_year=False,
    loads=(),
    traced_loads=(),
    self_loads=(),
    ladder_loads=(),
    ladder_steps=(),
    page_cache_loads=(),
    ablation_modes=(),
    ablation_loads=(),
    run_s=0.3,
    warmup_s=0.05,
    open_s=0.1,
)


def compared(out, store, monkeypatch):
    monkeypatch.setitem(STORE_PROFILES, "quick", SHORT)
    request = Request(in_flight=(8,), connections=(1,), rounds=1, on_store=True)
    run_compare(CompareOptions(out, request, BrokerDefaults(store=store), seed=1))
    return {path.parent: json.loads(path.read_text()) for path in (out / "raw").glob("*/run.json")}


@pytest.mark.usefixtures("forked_brokers")
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_the_commits_of_both_modes_are_objects(kind, tmp_path, monkeypatch):
    directory = tmp_path / "a store"
    url = "memory://" if kind == "memory" else f"file://{directory.as_posix().replace(' ', '%20')}"
    described = compared(tmp_path / "out", ComparedStore(url, 20.0), monkeypatch)
    assert {run["mode"] for run in described.values()} == {"classic", "pipelined"}
    for folder, run in described.items():
        told = {name: run["factors"][name] for name in ("wal", "store", "store_delay_ms", "properties")}
        assert told == {
            "wal": "objects",
            "store": kind,
            "store_delay_ms": 20.0,
            "properties": {"wal.puts.per.second": "0"},
        }
        assert run["settings"]["wal.puts.per.second"] == "0"
        if run["traced"]:
            words = [json.loads(line) for line in (folder / "strings.jsonl").read_text().splitlines()]
            rows = list(ring_file.read(folder / "store.ring").rows("operation", "began_ns", "ended_ns"))
            creations = [end - begin for word, begin, end in rows if words[word] == "create"]
            commits = list(ring_file.read(folder / "commits.ring").rows("commit"))
            assert len(creations) >= len(commits) > 3
            assert min(creations) >= 20_000_000
    assert kind == "memory" or list(directory.iterdir()) == []


@pytest.fixture(scope="module")
def bucket():
    """The address of a bucket, with its environment. obstore starts its threads once, before a test counts threads."""
    pytest.importorskip("obstore", reason="obstore (extra `objects`) is not installed")
    with s3_servers.open_moto() as address, pytest.MonkeyPatch.context() as patch:
        for name, value in s3_servers.environment(address).items():
            patch.setenv(name, value)
        url = f"s3://{s3_servers.BUCKET}/first"
        open_store(url, SystemFileSystem()).list("")
        yield url


@pytest.mark.usefixtures("forked_brokers")
def test_all_objects_are_deleted_from_a_bucket(bucket, tmp_path, monkeypatch):
    compared(tmp_path / "out", ComparedStore(bucket), monkeypatch)
    assert open_store(bucket, SystemFileSystem()).list("") == []


def test_an_unusable_store_ends_the_experiment_before_its_first_run(tmp_path):
    store = ComparedStore(f"file://{tmp_path / 'file'}")
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(ExperimentError, match=r"the store file:.* cannot be used"):
        run_compare(CompareOptions(tmp_path / "out", Request(on_store=True), BrokerDefaults(store=store)))
    assert not (tmp_path / "out").exists()
