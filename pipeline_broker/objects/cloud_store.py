"""Objects in a bucket of Amazon S3, of Azure or of Google, or of a server that speaks S3's protocol, through obstore.

Rules of this file: each method is one request, sent once; a deletion at Google is one for each object. obstore would
repeat it by itself and then report the answer to the copy, so its retries are off. A writing with a condition is one
PUT: obstore has no conditions for parts. Errors are judged by their class only, because what a store says beside the
status code differs from one to the next. A status that is no answer to the condition, a timeout or a broken connection
leave such a writing unsure, whatever the reason.

To S3 the body is hashed for the signature only where TLS does not protect it: that takes a millisecond for each MiB.
A tag is what the cloud compares when an object is replaced: the ETag, or with Google the number of its generation.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import AzureStore, GCSStore, S3Store

from pipeline_broker.files.file_system import Buffer
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

CONNECT_SECONDS_MAX = 3
REQUEST_SECONDS_MAX = 30  # 8 MiB at 0.3 MB/s
UPLOAD_PARTS_AT_ONCE = 4
_SYSTEM = re.compile(r'\bmessage: "([^"]*)"')
REASON_LENGTH_MAX = 300  # of what a store says; some answer with a page


class CloudStore:
    """See ObjectStore. Credentials, region and endpoint come from the environment, as for other tools.

    Args:
        bucket: its name; with Azure that of the container.
        prefix: in front of all names, with a `/` at the end; empty for the whole bucket.
        is_encrypted: the way to the store is TLS.
        cloud: whose protocol.

    Raises:
        ValueError: the environment does not say how to reach the store.
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
            self._store = _opened(bucket, client, cloud, is_encrypted=is_encrypted)
        except BaseError as error:
            raise ValueError(_reason(error)) from error

    def create(self, name: str, parts: Sequence[Buffer]) -> str:
        return self._put(name, parts, "create")

    def replace(self, name: str, parts: Sequence[Buffer], tag: str) -> str:
        try:
            return self._put(name, parts, {"version": tag} if self._tag == "version" else {"e_tag": tag})
        except Exists as error:  # the condition is another, its failure the same
            raise Changed(str(error)) from error

    def read(self, name: str, start: int, size_bytes: int) -> Part:
        end = start + size_bytes
        return self._read(name, {"range": (start, end)}, lambda size: (min(start, size), min(end, size)))

    def read_end(self, name: str, size_bytes: int) -> Part:
        return self._read(name, {"range": {"suffix": size_bytes}}, lambda size: (max(0, size - size_bytes), size))

    def list(self, prefix: str, after: str = "") -> Sequence[Listed]:
        start = len(self._prefix)
        # Below a prefix nothing sorts before it: a store need not skip what was not asked for.
        offset = self._prefix + after if after > prefix else None
        with _asked(prefix):
            # A prefix without parts is not one to obstore.
            found = obstore.list(
                self._store, self._prefix + checked_prefix(prefix) or None, offset=offset, chunk_size=LIST_MAX
            )
            for chunk in found:
                page = [Listed(each["path"][start:], each["size"]) for each in chunk]
                if own := [each for each in page if is_object_name(each.name)]:
                    return own
        return []

    def delete(self, names: Sequence[str]) -> None:
        assert len(names) <= DELETE_MAX
        if not names:
            return
        try:
            with _asked(names[0]):
                obstore.delete(self._store, [self._path(name) for name in names])
        except Missing:
            # Google has no request for several: at the first that is not there obstore leaves out the others.
            for name in names:
                with _asked(name), contextlib.suppress(FileNotFoundError):
                    obstore.delete(self._store, self._path(name))

    def upload(self, name: str, parts: Sequence[Buffer]) -> None:
        with _asked(name):
            content = b"".join(parts)
            obstore.put(
                self._store,
                self._path(name),
                content,
                use_multipart=len(content) > UPLOAD_PART_BYTES,
                chunk_size=UPLOAD_PART_BYTES,
                max_concurrency=UPLOAD_PARTS_AT_ONCE,
            )

    def _put(self, name: str, parts: Sequence[Buffer], condition: "PutMode") -> str:
        path = self._path(name)
        try:
            put = obstore.put(self._store, path, b"".join(parts), mode=condition, use_multipart=False)
            return _known_tag(put[self._tag])
        except (AlreadyExistsError, PreconditionError) as error:
            raise Exists(_reason(error)) from error
        except (BaseError, OSError) as error:  # also that there is no such object, or no such bucket
            raise Unsure(_reason(error)) from error

    def _read(self, name: str, options: "GetOptions", place: Callable[[int], tuple[int, int]]) -> Part:
        """What the options ask for; `place` says from where to where that is in an object of some size."""
        path = self._path(name)
        with _asked(name):
            try:
                return self._part(obstore.get(self._store, path, options=options))
            except BaseError:
                # To S3 it is an error to ask for no byte of an object, to some also to ask for more than there are.
                head = obstore.head(self._store, path)
                start, end = place(head["size"])
                if start == end:
                    return Part(b"", start, end, _known_tag(head[self._tag]))
                return self._part(obstore.get(self._store, path, options={"range": (start, end)}))

    def _part(self, found: "GetResult") -> Part:
        tag = _known_tag(found.meta[self._tag])
        return Part(memoryview(_body(found)), found.range[0], found.meta["size"], tag)

    def _path(self, name: str) -> str:
        return self._prefix + checked_name(name)


def _body(found: "GetResult") -> bytes:
    """The bytes of the range that the answer declares; a store that sends more is cut off."""
    declared = found.range[1] - found.range[0]
    pieces, left = [], declared
    for piece in found.stream(min_chunk_size=declared + 1):
        pieces.append(bytes(piece))
        left -= len(piece)
        if left < 0:
            raise Unavailable(f"the store sends more than the {declared} bytes that it declared")
    return b"".join(pieces)


@contextlib.contextmanager
def _asked(name: str) -> Iterator[None]:
    """The errors of what may be asked again."""
    try:
        yield
    except FileNotFoundError as error:
        raise Missing(name) from error
    except (BaseError, OSError) as error:
        raise Unavailable(_reason(error)) from error


def _opened(bucket: str, client: "ClientConfig", cloud: Cloud, *, is_encrypted: bool) -> Bucket:
    retries: RetryConfig = {"max_retries": 0}
    if cloud == "az":
        return AzureStore(bucket, client_options=client, retry_config=retries)
    if cloud == "gs":
        return GCSStore(bucket, client_options=client, retry_config=retries)
    return S3Store(bucket, unsigned_payload=is_encrypted, client_options=client, retry_config=retries)


def _known_tag(tag: str | None) -> str:
    if tag is None:
        raise Unsure("the store names no tag (ETag, generation) of what it stored")
    return tag


def _reason(error: BaseException) -> str:
    """What went wrong, in one line: the text, and of the values behind it the word of the system, if there is one."""
    text, _, values = str(error).partition("Debug source:")
    said = _SYSTEM.search(values)
    return " ".join(text.split())[:REASON_LENGTH_MAX] + (f": {said[1]}" if said else "")
