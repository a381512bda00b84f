"""From the address of a store to the store.

    s3://BUCKET/PREFIX   a bucket; the environment says how it is reached: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID,
                         AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ALLOW_HTTP
    file:///DIR          a directory of this machine
    memory://            the memory of this process, a new store for each opening

Rules of this file: what is wrong with an address, or with what an address needs, is a `StoreRefused` with one line. A
store that opens may still not answer, or not keep conditions: `check` finds that out.
"""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pipeline_broker.files.file_system import FileSystem
from pipeline_broker.objects.directory_store import DirectoryStore
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import ObjectStore

__all__ = ["StoreRefused", "open_store"]


class StoreRefused(Exception):
    """A store that cannot be used, with the reason in one line."""


def open_store(url: str, files: FileSystem, *, read_only: bool = False) -> ObjectStore:
    """The store at an address.

    Args:
        url: see the rules of the file.
        files: the file system of `file://`.
        read_only: nothing will be written.

    Raises:
        StoreRefused: the address is none, or what it leads to cannot be used.
    """
    address = urlsplit(url)
    if address.query or address.fragment:
        raise StoreRefused(f"{url}: the address of a store has no '?' and no '#'")
    if address.scheme == "s3":
        return _open_bucket(url, address.netloc, address.path.strip("/"))
    if address.scheme == "file":
        if address.netloc or not address.path.startswith("/"):
            raise StoreRefused(f"{url}: a directory is given as file:///DIR, with its whole path")
        try:
            return DirectoryStore(files, Path(unquote(address.path)), read_only=read_only)
        except OSError as error:
            raise StoreRefused(f"{url}: {error}") from error
    if address.scheme == "memory":
        if address.netloc or address.path.strip("/"):
            raise StoreRefused(f"{url}: the store in memory has no name: memory://")
        return MemoryStore()
    raise StoreRefused(f"{url}: a store is s3://BUCKET/PREFIX, file:///DIR or memory://")


def _open_bucket(url: str, bucket: str, prefix: str) -> ObjectStore:
    if not bucket:
        raise StoreRefused(f"{url}: a bucket is missing: s3://BUCKET/PREFIX")
    try:
        from pipeline_broker.objects.cloud_store import CloudStore  # noqa: PLC0415 - only s3:// needs obstore
    except ImportError:
        raise StoreRefused(f"{url}: this needs obstore: pip install 'pipeline-broker[objects]'") from None
    is_encrypted = not os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    if not is_encrypted and os.environ.get("AWS_ALLOW_HTTP", "").lower() not in {"true", "1"}:
        raise StoreRefused(f"{url}: AWS_ENDPOINT_URL is not encrypted; AWS_ALLOW_HTTP=true allows that")
    try:
        return CloudStore(bucket, f"{prefix}/" if prefix else "", is_encrypted=is_encrypted)
    except ValueError as error:
        raise StoreRefused(f"{url}: {error}") from error
