"""Opening stores by their URLs."""

import sys

import pytest

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.files.memory_files import MemoryFiles
from pipeline_broker.objects.cloud_store import CloudStore
from pipeline_broker.objects.directory_store import DirectoryStore
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.opening import StoreRefused, open_store


def test_each_kind_of_url_opens_its_store(tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)

    assert isinstance(open_store("memory://", MemoryFiles()), MemoryStore)
    assert isinstance(open_store(f"file://{tmp_path}/a%20b", SystemFileSystem()), DirectoryStore)
    assert (tmp_path / "a b").is_dir()
    assert isinstance(open_store("s3://bucket", MemoryFiles()), CloudStore)
    assert isinstance(open_store("s3://bucket/deep/prefix/", MemoryFiles()), CloudStore)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3:///prefix", "bucket is missing"),
        ("s3://bucket/a//b", "not a name"),
        ("s3://bucket/..", "not a name"),
        ("s3://bucket?x=1", "must not contain"),
        ("file://host/dir", "absolute path"),
        ("file:dir", "absolute path"),
        ("memory://name", "memory://"),
        ("http://host/bucket", "s3://BUCKET/PREFIX"),
        ("/var/lib", "s3://BUCKET/PREFIX"),
        ("", "s3://BUCKET/PREFIX"),
    ],
)
def test_an_invalid_url_is_refused_in_one_line(url, reason):
    with pytest.raises(StoreRefused, match=reason) as refused:
        open_store(url, MemoryFiles())
    assert "\n" not in str(refused.value)


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreRefused, match="file"):
        open_store(f"file://{tmp_path}/file/store", SystemFileSystem())


def test_a_connection_without_encryption_must_be_allowed(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    with pytest.raises(StoreRefused, match="AWS_ALLOW_HTTP"):
        open_store("s3://bucket", MemoryFiles())
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert isinstance(open_store("s3://bucket", MemoryFiles()), CloudStore)


def test_a_bucket_without_obstore_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pipeline_broker.objects.cloud_store", None)
    with pytest.raises(StoreRefused, match="objects"):
        open_store("s3://bucket", MemoryFiles())
