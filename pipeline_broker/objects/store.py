"""The interface of object stores: named objects with conditional writes, shared by memory, directories and buckets.

Stores are linearizable for each name, and so is `list`: calls that begin after an answer see its effect, from any
process.

A method sends its request once and never retries. Its error says what is known about the request:

* `Exists`, `Changed`, `Missing`: the store refused the request because of the object that it found.
* `Unavailable`: a `create` or `replace` was not applied and never will be.
* `Unsure`: a `create` or `replace` may have been applied, may be applied later, or never.

An HTTP client may repeat a request without telling, and a store may answer a conflict as `Exists`. So `Exists` and
`Changed` only prove that *some* object is there, perhaps the caller's own. A caller that must know reads the object, as
`settled_store` does.

Names consist of parts of letters, digits, `.`, `_` and `-`, with `/` between them. They sort as text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from pipeline_broker.base.buffer import Buffer

LIST_MAX = 1000
"""Largest number of names that `list` returns."""
DELETE_MAX = 1000
"""Largest number of names in a call of `delete`; S3's DeleteObjects accepts no more."""
UPLOAD_PART_BYTES = 8 << 20
"""Size of the parts of a multipart upload; a longer content costs one request per part."""
NAME_BYTES_MAX = 512  # S3 allows 1,024, which must also hold the prefix of the store

_NAME = re.compile(r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)*")


class ObjectStoreError(Exception):
    pass


class Exists(ObjectStoreError):
    """An object already has the name given to `create`; this call itself may have made it."""


class Changed(ObjectStoreError):
    """`replace` found no object, or another content than the tag's; this call itself may have written it."""


class Missing(ObjectStoreError):
    pass


class NotAnObject(ObjectStoreError):
    """A file that the store did not write has the name of an object; the operator must move it away."""


class Unavailable(ObjectStoreError):
    """The store did not answer, or refused the access; retrying may succeed.

    A `create` or `replace` was not applied and will not be applied later.
    """


class Interrupted(Unavailable):
    """The broker is closing: the request was not sent, or its answer is not awaited. Later requests fail, too."""


class Unsure(ObjectStoreError):
    """The object may have been written, or may be written later."""


class Part(NamedTuple):
    """A range of bytes read from an object.

    Attributes:
        data: the bytes.
        start: the position of `data` in the object; the size of the object if `data` is empty.
        size_bytes: the size of the whole object.
        tag: identifies this content of the object, for `replace`.
    """

    data: Buffer
    start: int
    size_bytes: int
    tag: str


class Listed(NamedTuple):
    name: str
    size_bytes: int


class ObjectStore(Protocol):
    """Objects that are written as a whole and read in ranges.

    A store of files may raise NotAnObject in every method.
    """

    def create(self, name: str, parts: Sequence[Buffer]) -> str:
        """Write a new object from `parts`, concatenated, and return its tag. The object is durable on return.

        At most one `create` of a name succeeds until its object is deleted. Readers never see part of an object.

        Raises:
            Exists: an object has this name, perhaps this call's own.
            Unavailable: the object was not written.
            Unsure: the object may have been written, or may be written later.
        """

    def replace(self, name: str, parts: Sequence[Buffer], tag: str) -> str:
        """Overwrite an object if its content still has the tag, durably, and return the new tag.

        A tag may be a hash of the content. So a caller that relies on tags never writes the same content twice.

        Raises:
            Changed: the content differs, perhaps because of this call itself, or the object is missing.
            Unavailable: the object was not written.
            Unsure: the object may have been written, or may be written later.
        """

    def read(self, name: str, start: int, size_bytes: int) -> Part:
        """Read up to `size_bytes` bytes starting at `start`; fewer only at the end of the object.

        Raises:
            Missing: no object has this name.
            Unavailable: the store did not answer.
        """

    def read_end(self, name: str, size_bytes: int) -> Part:
        """Read the last `size_bytes` (at least 1) bytes of an object, or all of a shorter one.

        Raises:
            Missing: no object has this name.
            Unavailable: the store did not answer.
        """

    def list(self, prefix: str, after: str = "") -> Sequence[Listed]:
        """List objects below a prefix with names that sort after `after`: the next ones in order, without a gap.

        The store chooses their number, at most `LIST_MAX`. An empty answer means that no more exist (see `list_all`).

        Args:
            prefix: whole parts of names, ending with `/`; empty for the whole store.
            after: a name, which need not exist; empty to start with the first object.

        Raises:
            Unavailable: the store did not answer.
        """

    def delete(self, names: Sequence[str]) -> None:
        """Delete up to `DELETE_MAX` objects, durably; missing ones are ignored.

        Raises:
            Unavailable: some objects may be deleted already, or may be deleted later.
        """

    def upload(self, name: str, parts: Sequence[Buffer]) -> None:
        """Write an object of any size, durably and unconditionally.

        The caller chooses a name that no other content ever has, so repeating the call is safe.

        Raises:
            Unavailable: the object may exist, may appear later, or never; readers never see part of it.
        """

    def copy(self, source: str, name: str) -> None:
        """Copy an object inside the store, durably and unconditionally, under a name chosen as for `upload`.

        Raises:
            Missing: no object has the name `source`.
            Unavailable: as for `upload`.
        """


def list_all(store: ObjectStore, prefix: str, after: str = "") -> Iterator[Listed]:
    """Yield all objects below a prefix with names that sort after `after`, in order.

    An object that is written or deleted during the iteration may be included or not.

    Raises:
        Unavailable: the store did not answer, or not in order.
    """
    while page := store.list(prefix, after):
        # Without this check a store that ignores `after` would make the loop endless.
        if page[-1].name <= after:
            raise Unavailable(
                f"the store does not list {prefix!r} in order: {page[-1].name!r} does not sort after {after!r}"
            )
        yield from page
        after = page[-1].name


def delete_all(store: ObjectStore, names: Iterable[str]) -> None:
    """Delete any number of objects, in the order of `names`.

    Raises:
        Unavailable: some objects may be deleted already, or may be deleted later.
    """
    pending = list(names)
    for start in range(0, len(pending), DELETE_MAX):
        store.delete(pending[start : start + DELETE_MAX])


def is_object_name(name: str) -> bool:
    """Return whether this broker could have chosen the name. Other programs own all other objects of the store."""
    return len(name) <= NAME_BYTES_MAX and _NAME.fullmatch(name) is not None


def checked_name(name: str) -> str:
    """Return the name if an object may have it.

    Raises:
        ValueError: the name contains other characters or parts, or is longer than `NAME_BYTES_MAX`.
    """
    if not is_object_name(name):
        raise ValueError(
            f"{name!r} is not a name of an object: use letters, digits, '.', '_' and '-', with '/' between the parts"
        )
    return name


def checked_prefix(prefix: str) -> str:
    """Return the prefix if it is empty, or a name with a `/` at its end.

    Raises:
        ValueError: the prefix is neither.
    """
    if prefix and not (prefix.endswith("/") and checked_name(prefix[:-1])):
        raise ValueError(f"{prefix!r} is not a prefix of names: it must end with '/'")
    return prefix
