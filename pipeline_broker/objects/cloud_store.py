"""Object stores of Amazon S3, Azure, Google Cloud and servers that speak S3's protocol, through obstore.

Each method sends one request, once; only deletions at Google take one request per object. Errors are mapped by their
class alone, because the texts differ from store to store. A conditional write is `Unsure` after a timeout, a broken
connection, or a status that does not answer the condition.

A tag is the value that the cloud compares in a conditional replace: the ETag, or the generation at Google.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import AzureStore, GCSStore, S3Store

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.objects.store import (
    DELETE_MAX,
    LIST_MAX,
    UPLOAD_PART_BYTES,
    Changed,
    Exists,
    Listed,
    Missing,
    Part,
    Unavailable,
    Unsure,
    checked_name,
    checked_prefix,
    is_object_name,
)

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, PutMode
    from obstore.store import ClientConfig, RetryConfig

__all__ = ["Cloud", "CloudStore"]

Cloud: TypeAlias = Literal["s3", "az", "gs"]
Bucket: TypeAlias = S3Store | AzureStore | GCSStore

# obstore cannot cancel a request, so these limits bound the time for which a caller waits.
CONNECT_SECONDS_MAX = 3
REQUEST_SECONDS_MAX = 30  # 8 MiB at 0.3 MB/s
UPLOAD_PARTS_AT_ONCE = 4
_SYSTEM = re.compile(r'\bmessage: "([^"]*)"')
REASON_LENGTH_MAX = 300  # characters of a store's message; some stores answer with an HTML page


class CloudStore:
    """A bucket, or a container of Azure. obstore takes credentials, region and endpoint from the environment.

    Args:
        bucket: the name of the bucket or container.
        prefix: a prefix for all names, ending with `/`; empty for the whole bucket.
        is_encrypted: the connection uses TLS.
        cloud: the protocol.

    Raises:
        ValueError: the prefix is invalid, or the environment does not say how to reach the store.
    """

    def __init__(self, bucket: str, prefix: str, *, is_encrypted: bool, cloud: Cloud = "s3") -> None:
        self._prefix = checked_prefix(prefix)
        self._tag: Literal["e_tag", "version"] = "version" if cloud == "gs" else "e_tag"
        client: ClientConfig = {
            "allow_http": not is_encrypted,
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS_MAX),
            "timeout": timedelta(seconds=REQUEST_SECONDS_MAX),
        }
        try:
            self._store = _open_bucket(bucket, client, cloud, is_encrypted=is_encrypted)
        except BaseError as error:
            raise ValueError(_reason(error)) from error

    def create(self, name: str, parts: Sequence[Buffer]) -> str:
        return self._put(name, parts, "create")

    def replace(self, name: str, parts: Sequence[Buffer], tag: str) -> str:
        try:
            return self._put(name, parts, {"version": tag} if self._tag == "version" else {"e_tag": tag})
        except Exists as error:  # obstore raises the same errors for both conditions
            raise Changed(str(error)) from error

    def read(self, name: str, start: int, size_bytes: int) -> Part:
        end = start + size_bytes
        return self._read(name, {"range": (start, end)}, lambda size: (min(start, size), min(end, size)))

    def read_end(self, name: str, size_bytes: int) -> Part:
        return self._read(name, {"range": {"suffix": size_bytes}}, lambda size: (max(0, size - size_bytes), size))

    def list(self, prefix: str, after: str = "") -> Sequence[Listed]:
        start = len(self._prefix)
        # Names below a prefix sort after the prefix. So an `after` before it skips nothing, and is not sent.
        offset = self._prefix + after if after > prefix else None
        with _translated_errors(prefix):
            # obstore takes None, not "", for no prefix.
            found = obstore.list(
                self._store, self._prefix + checked_prefix(prefix) or None, offset=offset, chunk_size=LIST_MAX
            )
            for chunk in found:
                page = [Listed(each["path"][start:], each["size"]) for each in chunk]
                # An empty page would mean the end of the list, so a chunk of other programs' objects is skipped.
                if own := [each for each in page if is_object_name(each.name)]:
                    return own
        return []

    def delete(self, names: Sequence[str]) -> None:
        assert len(names) <= DELETE_MAX
        if not names:
            return
        try:
            with _translated_errors(names[0]):
                obstore.delete(self._store, [self._path(name) for name in names])
        except Missing:
            # Google has no bulk delete: obstore stops at the first missing object and leaves the others.
            for name in names:
                with _translated_errors(name), contextlib.suppress(FileNotFoundError):
                    obstore.delete(self._store, self._path(name))

    def upload(self, name: str, parts: Sequence[Buffer]) -> None:
        with _translated_errors(name):
            content = b"".join(parts)
            obstore.put(
                self._store,
                self._path(name),
                content,
                use_multipart=len(content) > UPLOAD_PART_BYTES,
                chunk_size=UPLOAD_PART_BYTES,
                max_concurrency=UPLOAD_PARTS_AT_ONCE,
            )

    def copy(self, source: str, name: str) -> None:
        with _translated_errors(source):
            obstore.copy(self._store, self._path(source), self._path(name))
            # S3 may report a failed copy after the status 200, so only the object proves it.
            obstore.head(self._store, self._path(name))

    def _put(self, name: str, parts: Sequence[Buffer], condition: "PutMode") -> str:
        path = self._path(name)
        try:
            # One PUT: obstore cannot put a condition on a multipart upload.
            put = obstore.put(self._store, path, b"".join(parts), mode=condition, use_multipart=False)
            return _required_tag(put[self._tag])
        except (AlreadyExistsError, PreconditionError) as error:
            raise Exists(_reason(error)) from error
        except (BaseError, OSError) as error:  # includes a missing object and a missing bucket
            raise Unsure(_reason(error)) from error

    def _read(self, name: str, options: "GetOptions", to_range: Callable[[int], tuple[int, int]]) -> Part:
        path = self._path(name)
        with _translated_errors(name):
            try:
                return self._part(obstore.get(self._store, path, options=options))
            except BaseError:
                # S3 rejects a range without bytes, and some stores one that ends after the object. Ask for the size,
                # then for a range that fits.
                head = obstore.head(self._store, path)
                start, end = to_range(head["size"])
                if start == end:
                    return Part(b"", start, end, _required_tag(head[self._tag]))
                return self._part(obstore.get(self._store, path, options={"range": (start, end)}))

    def _part(self, found: "GetResult") -> Part:
        tag = _required_tag(found.meta[self._tag])
        return Part(memoryview(_body(found)), found.range[0], found.meta["size"], tag)

    def _path(self, name: str) -> str:
        return self._prefix + checked_name(name)


def _body(found: "GetResult") -> bytes:
    declared = found.range[1] - found.range[0]
    pieces, left = [], declared
    for piece in found.stream(min_chunk_size=declared + 1):
        pieces.append(bytes(piece))
        left -= len(piece)
        if left < 0:
            raise Unavailable(f"the store sent more than the {declared} bytes that it declared")
    return b"".join(pieces)


@contextlib.contextmanager
def _translated_errors(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise Missing(name) from error
    except (BaseError, OSError) as error:
        raise Unavailable(_reason(error)) from error


def _open_bucket(bucket: str, client: "ClientConfig", cloud: Cloud, *, is_encrypted: bool) -> Bucket:
    # obstore would report the answer to the repeated request: `Exists`, after the first copy has created the object.
    retries: RetryConfig = {"max_retries": 0}
    if cloud == "az":
        return AzureStore(bucket, client_options=client, retry_config=retries)
    if cloud == "gs":
        return GCSStore(bucket, client_options=client, retry_config=retries)
    # Hashing the body for the signature costs 1 ms per MiB. TLS protects the body already.
    return S3Store(bucket, unsigned_payload=is_encrypted, client_options=client, retry_config=retries)


def _required_tag(tag: str | None) -> str:
    if tag is None:
        raise Unsure("the store answered without the tag (ETag, generation) of the object")
    return tag


def _reason(error: BaseException) -> str:
    text, _, values = str(error).partition("Debug source:")
    system = _SYSTEM.search(values)  # the message of the operating system, such as "connection refused"
    return " ".join(text.split())[:REASON_LENGTH_MAX] + (f": {system[1]}" if system else "")
