"""Named objects in a bucket: the interface that memory, a directory and a cloud's store share.

Rules of this room: it knows nothing of Kafka and nothing of Trio. Every method waits until the store has answered, so
it is called from threads, from any number at once. A store is linearizable for each name: what a call has answered is
seen by every call that begins afterwards, from any process, and so it is for `list`.

Rules of this file: a method sends its request once and repeats nothing. What is known of a failed request is in the
error: `Exists`, `Changed` and `Missing` say how things were when the store looked; after `Unavailable` a `create` or
`replace` was not applied and never will be; after `Unsure` it may have been applied, may be later, or never. A client
may repeat what it sends without saying so, and a store may answer a conflict as `Exists`, so `Exists` and `Changed`
prove only that *some* object is there: it may be the caller's own. Who must know looks at it, as `settled_store` does.

Names are parts of letters, digits, `.`, `_`, `-` with `/` in between, and sort as text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from pipeline_broker.files.file_system import Buffer

LIST_MAX = 1000
"""Names in an answer to `list`."""
DELETE_MAX = 1000
"""Names in a call of `delete`."""
UPLOAD_PART_BYTES = 8 << 20
"""A longer content is uploaded in parts of so many bytes, each with a request of its own."""
NAME_BYTES_MAX = 512  # S3 allows 1,024, and the prefix of a store stands in front

_NAME = re.compile(r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)*")


class ObjectStoreError(Exception):
    """A request to an object store that did not do what it was sent for."""


class Exists(ObjectStoreError):
    """`create` met an object of this name; whose it is, and whether this call made it, is not said."""


class Changed(ObjectStoreError):
    """`replace` met another content than that of the tag, or none; whether this call made it is not said."""


class Missing(ObjectStoreError):
    """No object has this name."""


class NotAnObject(ObjectStoreError):
    """Something that no store writes has the name of an object: a person must move it away."""


class Unavailable(ObjectStoreError):
    """The store did not do it and will not do it later; the same request may succeed at another time."""


class Interrupted(Unavailable):
    """The store was not asked, or its answer is not waited for, because the broker ends: no further request is sent."""


class Unsure(ObjectStoreError):
    """Whether the object was written is not known; it may also be written after this was raised."""


class Part(NamedTuple):
    """What was read of an object.

    Attributes:
        data: the bytes.
        start: the position of the first of them in the object, in bytes; its size when there are none.
        size_bytes: how long the whole object is.
        tag: names this content of the object, for `replace`.
    """

    data: Buffer
    start: int
    size_bytes: int
    tag: str


class Listed(NamedTuple):
    """An object in a listing, with the length of it in bytes."""

    name: str
    size_bytes: int


class ObjectStore(Protocol):
    """Objects that are written as a whole and read in parts."""

    def create(self, name: str, parts: Sequence[Buffer]) -> str:
        """Write a new object, the parts one behind the other, durably when this returns; returns its tag.

        At most one `create` of a name ever succeeds while its object is not deleted. An object is never seen in part.

        Raises:
            Exists: there is an object of this name, perhaps this call's own.
            Unavailable: it was not written.
            Unsure: it may have been written, or be written later.
        """

    def replace(self, name: str, parts: Sequence[Buffer], tag: str) -> str:
        """Write an object anew if its content is still that of the tag, durably when this returns; returns the new tag.

        A tag may be a hash of the content: who must tell one content from an equal earlier one writes none twice.

        Raises:
            Changed: the content is another, perhaps this call's own, or there is no such object.
            Unavailable: it was not written.
            Unsure: it may have been written, or be written later.
        """

    def read(self, name: str, start: int, size_bytes: int) -> Part:
        """Up to so many bytes from a position on; fewer only at the end of the object, none from there on.

        Raises:
            Missing: there is no such object.
            Unavailable: the store gave no answer.
        """

    def read_end(self, name: str, size_bytes: int) -> Part:
        """The last so many bytes of an object, all of it when it is shorter; at least one byte is asked for.

        Raises:
            Missing: there is no such object.
            Unavailable: the store gave no answer.
        """

    def list(self, prefix: str, after: str = "") -> Sequence[Listed]:
        """Some of the objects below a prefix whose names sort behind `after`: the next ones in order, no gap.

        How many is up to the store, at most `LIST_MAX`; none only when there are no more (see `list_all`).

        Args:
            prefix: whole parts of names with a `/` at the end; empty for the whole store.
            after: a name, which need not exist; empty for the first ones.

        Raises:
            Unavailable: the store gave no answer.
        """

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects, at most `DELETE_MAX`, durably when this returns; those that are not there are no error.

        Raises:
            Unavailable: some may be deleted already, or be deleted later.
        """

    def upload(self, name: str, parts: Sequence[Buffer]) -> None:
        """Write an object of any size, without a condition, durably when this returns.

        The caller has chosen a name that no other content ever has, so that the same call may be repeated.

        Raises:
            Unavailable: it may be there or not, or come later; never in part.
        """


def list_all(store: ObjectStore, prefix: str, after: str = "") -> Iterator[Listed]:
    """All objects below a prefix behind a name, in order; an object that comes or goes meanwhile may be in it or not.

    Raises:
        Unavailable: as `ObjectStore.list`, at any step.
    """
    while page := store.list(prefix, after):
        if page[-1].name <= after:
            raise Unavailable(
                f"the store does not list {prefix!r} in order: after {after!r} it names {page[-1].name!r}"
            )
        yield from page
        after = page[-1].name


def delete_all(store: ObjectStore, names: Iterable[str]) -> None:
    """Delete any number of objects, in the given order of names.

    Raises:
        Unavailable: as `ObjectStore.delete`.
    """
    pending = list(names)
    for start in range(0, len(pending), DELETE_MAX):
        store.delete(pending[start : start + DELETE_MAX])


def is_object_name(name: str) -> bool:
    """Return whether an object of ours may have this name; others in the same store belong to strangers."""
    return len(name) <= NAME_BYTES_MAX and _NAME.fullmatch(name) is not None


def checked_name(name: str) -> str:
    """The name, if an object may have it.

    Raises:
        ValueError: it may not.
    """
    if not is_object_name(name):
        raise ValueError(f"{name!r} is no name of an object: parts of letters, digits, '.', '_', '-' with '/' between")
    return name


def checked_prefix(prefix: str) -> str:
    """The prefix, if objects can be listed below it: it is empty, or a name with a `/` at its end.

    Raises:
        ValueError: it is not.
    """
    if prefix and not (prefix.endswith("/") and checked_name(prefix[:-1])):
        raise ValueError(f"{prefix!r} is no prefix of names: it has to end with '/'")
    return prefix
