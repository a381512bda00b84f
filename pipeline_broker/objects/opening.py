"""Object stores by URL.

    s3://BUCKET/PREFIX      Amazon S3 or compatible: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
                            AWS_REGION, AWS_ALLOW_HTTP
    az://CONTAINER/PREFIX   Azure: AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_ENDPOINT,
                            AZURE_ALLOW_HTTP
    gs://BUCKET/PREFIX      Google Cloud: GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT, GOOGLE_BASE_URL,
                            GOOGLE_ALLOW_HTTP
    file:///DIR             a directory of this machine
    memory://               the memory of this process, a new store each time

Buckets take their address and credentials from these environment variables.
"""

import os
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from pipeline_broker.files.file_system import FileSystem
from pipeline_broker.objects.directory_store import DirectoryStore
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import ObjectStore

__all__ = ["StoreRefused", "open_store"]


class _Cloud(NamedTuple):
    name: Literal["s3", "az", "gs"]
    endpoint: str
    allow_http: str


ENDPOINTS = {
    "s3": _Cloud("s3", "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP"),
    "az": _Cloud("az", "AZURE_STORAGE_ENDPOINT", "AZURE_ALLOW_HTTP"),
    "gs": _Cloud("gs", "GOOGLE_BASE_URL", "GOOGLE_ALLOW_HTTP"),
}


class StoreRefused(Exception):
    """A store that cannot be used; the text is one line."""


def open_store(url: str, files: FileSystem, *, read_only: bool = False) -> ObjectStore:
    """Open the store at a URL, without checking that it answers or honours conditions (see `check`).

    Args:
        url: see the module.
        files: the file system for `file://`.
        read_only: nothing will be written.

    Raises:
        StoreRefused: the URL is invalid, or its store cannot be opened.
    """
    address = urlsplit(url)
    if address.query or address.fragment:
        raise StoreRefused(f"{url}: the address of a store must not contain '?' or '#'")
    if address.scheme in ENDPOINTS:
        return _open_bucket(url, address.scheme, address.netloc, address.path.strip("/"))
    if address.scheme == "file":
        if address.netloc or not address.path.startswith("/"):
            raise StoreRefused(f"{url}: name a directory as file:///DIR, with its absolute path")
        try:
            return DirectoryStore(files, Path(unquote(address.path)), read_only=read_only)
        except OSError as error:
            raise StoreRefused(f"{url}: {error}") from error
    if address.scheme == "memory":
        if address.netloc or address.path.strip("/"):
            raise StoreRefused(f"{url}: the store in memory has no name. Use memory://")
        return MemoryStore()
    raise StoreRefused(
        f"{url}: unknown kind of store. Use s3://BUCKET/PREFIX, az://CONTAINER/PREFIX, gs://BUCKET/PREFIX, file:///DIR"
        " or memory://"
    )


def _open_bucket(url: str, scheme: str, bucket: str, prefix: str) -> ObjectStore:
    if not bucket:
        raise StoreRefused(f"{url}: the bucket is missing. Use {scheme}://BUCKET/PREFIX")
    try:
        from pipeline_broker.objects.cloud_store import CloudStore  # noqa: PLC0415 - obstore is optional
    except ImportError:
        raise StoreRefused(f"{url}: obstore is missing. Run pip install 'pipeline-broker[objects]'") from None
    cloud = ENDPOINTS[scheme]
    is_encrypted = not os.environ.get(cloud.endpoint, "").startswith("http://")
    if not is_encrypted and os.environ.get(cloud.allow_http, "").lower() not in {"true", "1"}:
        raise StoreRefused(f"{url}: {cloud.endpoint} is not encrypted. Set {cloud.allow_http}=true to allow that")
    try:
        return CloudStore(bucket, f"{prefix}/" if prefix else "", is_encrypted=is_encrypted, cloud=cloud.name)
    except ValueError as error:
        raise StoreRefused(f"{url}: {error}") from error
