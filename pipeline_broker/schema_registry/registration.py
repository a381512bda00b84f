"""Registration, lookup and comparison of schemas.

An operation decides on the state of the registry. Whatever takes time is yielded as work for the worker process, and
its result is sent back. While an operation waits, other operations may change the state; so a caller who records the
changes of a decision must make sure that the state is the one that it was decided on.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

import attrs

from pipeline_broker.base.strict_json import InvalidJsonError, load
from pipeline_broker.schema_registry.errors import RegistryError, incompatible, invalid_schema, not_permitted
from pipeline_broker.schema_registry.formats import (
    TEXT_CHARACTERS_MAX,
    Given,
    canonical,
    check_new,
    compare,
    serialized,
)
from pipeline_broker.schema_registry.records import Change, VersionChange
from pipeline_broker.schema_registry.state import LATEST, TEXT_BYTES_MAX, VERSIONS_MAX, RegistryState
from pipeline_broker.schema_registry.values import Level, Mode, Reference, Schema, SchemaType, Version
from pipeline_broker.worker.work import Work

__all__ = [
    "SMALL_BYTES_MAX",
    "Decision",
    "Steps",
    "compatibility",
    "given",
    "in_form",
    "lookup",
    "read_json",
    "register",
    "remembering",
    "shown",
]

DEPENDENCIES_MAX = 200
"""Of one schema, with what they need themselves."""
FOLLOWED_MAX = 2_000
"""References of a schema and of those that it needs: 2 ms."""
COMPARED_MAX = 1_000
"""Versions that a new one is compared with."""
COMPARED_AT_ONCE_MAX = 50
SMALL_BYTES_MAX = 16 << 10
"""JSON of this size is read within 2 ms, whatever it says, so it needs no worker."""


@attrs.frozen
class Decision:
    """The answer to a request and the changes that come before it.

    Attributes:
        body: of the answer: a value for JSON, an object that may have values of RawJson, or an iterable of such
            elements of a list.
        changes: to be recorded before the answer is sent.
        is_text: whether the body is a text instead.
    """

    body: Any
    changes: Sequence[Change] = ()
    is_text: bool = False


Steps: TypeAlias = Generator[Work | None, Any, Decision]
"""An operation that yields work and is sent its result. None is yielded where other operations may have a turn; it is
sent None. Raises RegistryError."""


def given(state: RegistryState, schema: Schema) -> Given:
    """Return a schema with all that it refers to; raises RegistryError where a reference leads to nothing."""
    collected = _References(state)
    collected.collect(schema.references)
    return Given(schema, tuple(collected.found.items()))


class _References:
    """The schemas that one refers to, by the names that it has for them, each after those that it needs itself."""

    def __init__(self, state: RegistryState) -> None:
        self._state = state
        self._path: set[Reference] = set()
        self._followed = 0
        self.found: dict[str, str] = {}

    def collect(self, references: Sequence[Reference]) -> None:
        for reference in references:
            if reference in self._path:
                raise invalid_schema(f"The reference {reference.name!r} leads to itself")
            self._followed += 1
            if len(self._path) + len(self.found) >= DEPENDENCIES_MAX or self._followed > FOLLOWED_MAX:
                raise invalid_schema(
                    f"A schema needs at most {DEPENDENCIES_MAX} others, by {FOLLOWED_MAX} references of all of them"
                )
            if reference.name in self.found:
                continue
            try:
                schema = self._state.resolved(reference).schema
            except RegistryError as error:
                raise invalid_schema(f"The reference {reference.name!r} leads to nothing: {error.message}") from None
            self._path.add(reference)
            self.collect(schema.references)
            self._path.remove(reference)
            self.found[reference.name] = schema.text


def remembering(steps: Steps, known: dict[Work, Any]) -> Steps:
    """Run an operation; work whose result is known is not yielded again, and other results become known."""
    result: Any = None
    while True:
        try:
            wanted = steps.send(result)
        except StopIteration as end:
            decision: Decision = end.value
            return decision
        if wanted is None:
            result = yield None
            continue
        if wanted not in known:
            known[wanted] = yield wanted
        result = known[wanted]


def shown(state: RegistryState, version: Version, form: str) -> Steps:
    """Return a version in the form that the client asked for."""
    schema = yield from in_form(state, version.schema, form)
    return Decision({**version.as_json(), **schema})


def in_form(state: RegistryState, schema: Schema, form: str) -> Generator[Work | None, Any, dict[str, Any]]:
    """Return the fields of a schema; the form `serialized` of Protobuf is its descriptor, others are as it is kept."""
    fields = schema.as_json()
    if form == "serialized" and schema.type is SchemaType.PROTOBUF:
        fields["schema"] = yield Work(serialized, (given(state, schema),))
    return fields


@attrs.frozen
class Wanted:
    """The body of a request that has a schema."""

    schema: Schema
    schema_id: int | None
    number: int | None

    @classmethod
    def read(cls, body: bytes) -> Wanted:
        """Read a body; raises RegistryError."""
        content = read_json(body)
        return cls(Schema.read(content), _number(content, "id"), _number(content, "version"))


def read_json(body: bytes) -> Any:
    """Read a body; raises RegistryError."""
    try:
        return load(body)
    except InvalidJsonError as error:
        raise RegistryError(400, f"The body is not JSON: {error}") from None


def _wanted(body: bytes) -> Generator[Work | None, Any, Wanted]:
    if len(body) <= SMALL_BYTES_MAX:
        return Wanted.read(body)
    wanted: Wanted = yield Work(Wanted.read, (body,))
    return wanted


def register(state: RegistryState, subject: str, body: bytes, *, is_normalized: bool) -> Steps:
    """Make a schema a version of a subject, unless it is one already; the answer is its id."""
    mode = state.mode_in_scope(subject)
    if mode.is_read_only:
        raise not_permitted(f"Subject {subject} is in read-only mode")
    wanted = yield from _wanted(body)
    schema = yield Work(canonical, (given(state, wanted.schema), is_normalized))
    registered = _registered(state, subject, schema)
    if registered is not None and wanted.schema_id in (None, registered.schema_id):
        return Decision(registered.as_json() if is_normalized else {"id": registered.schema_id})
    if mode is Mode.IMPORT:
        return _imported(state, subject, schema, wanted.schema_id, wanted.number)
    if wanted.schema_id is not None:
        raise not_permitted(f"Subject {subject} is not in import mode")
    yield Work(check_new, (given(state, schema),))
    found = yield from _compared(state, state.versions(subject), schema, state.level(subject))
    if found:
        raise incompatible(
            f'Schema being registered is incompatible with an earlier schema for subject "{subject}",'
            f" details: [{', '.join(found)}]"
        )
    schema_id = state.id_of(schema) or state.next_id
    number = state.next_number(subject)
    if wanted.number not in (None, number, LATEST):
        raise invalid_schema(f"Version is not one more than previous version: {wanted.number} instead of {number}")
    return _new_version(state, Version(subject, number, schema_id, schema))


def _imported(
    state: RegistryState, subject: str, schema: Schema, schema_id: int | None, number: int | None
) -> Decision:
    """A version with the id that it had elsewhere."""
    if schema_id is None:
        raise not_permitted(f"Subject {subject} is in import mode: a registration names the id")
    if (other := state.schema(schema_id)) is not None and other != schema:
        raise RegistryError(42207, f"The schema of id {schema_id} is another one")
    return _new_version(state, Version(subject, number or state.next_number(subject), schema_id, schema))


def _new_version(state: RegistryState, version: Version) -> Decision:
    change = VersionChange(version.subject, version.number, version)
    if not state.has_room(change):
        raise not_permitted(
            f"This registry keeps at most {VERSIONS_MAX} versions and {TEXT_BYTES_MAX >> 20} MiB of their texts;"
            " delete some for good"
        )
    return Decision({"id": version.schema_id}, [change])


def _number(body: Any, name: str) -> int | None:
    number = body.get(name) if isinstance(body, dict) else None
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not LATEST <= number < 2**31):
        raise RegistryError(422, f"{name} is not a number")
    return None if number in (None, LATEST) or (name == "id" and number < 0) else number


def _registered(state: RegistryState, subject: str, schema: Schema, *, with_deleted: bool = False) -> Version | None:
    """The latest version of a subject that is this schema."""
    versions = state.versions(subject, with_deleted=with_deleted)
    return next((version for version in reversed(versions) if version.schema == schema), None)


def _compared(
    state: RegistryState, versions: Sequence[Version], schema: Schema, level: Level
) -> Generator[Work | None, Any, list[str]]:
    """Return why a schema is incompatible with versions, compared from the latest on; empty if it is compatible."""
    if level is Level.NONE:
        return []
    compared = list(reversed(versions if level.is_transitive else versions[-1:]))[:COMPARED_MAX]
    new = given(state, schema)
    some: list[tuple[Version, Given]] = []
    characters = 0
    for version in compared:
        yield None
        old = given(state, version.schema)
        if some and (len(some) >= COMPARED_AT_ONCE_MAX or characters + old.text_characters > TEXT_CHARACTERS_MAX):
            if found := (yield Work(compare, (new, tuple(some), level))):
                return list(found)
            some, characters = [], 0
        some.append((version, old))
        characters += old.text_characters
    return list((yield Work(compare, (new, tuple(some), level)))) if some else []


def lookup(
    state: RegistryState, subject: str, body: bytes, *, is_normalized: bool, with_deleted: bool, form: str
) -> Steps:
    """Return the version of a subject that is this schema."""
    state.existing_versions(subject, with_deleted=with_deleted)
    wanted = yield from _wanted(body)
    schema = yield Work(canonical, (given(state, wanted.schema), is_normalized))
    version = _registered(state, subject, schema, with_deleted=with_deleted)
    if version is None:
        raise RegistryError(40403, "Schema not found")
    return (yield from shown(state, version, form))


def compatibility(
    state: RegistryState,
    subject: str,
    versions: Sequence[Version],
    body: bytes,
    *,
    is_normalized: bool,
    is_verbose: bool,
) -> Steps:
    """Return whether a schema is compatible with all of some versions of a subject."""
    wanted = yield from _wanted(body)
    schema = yield Work(canonical, (given(state, wanted.schema), is_normalized))
    if not any(version.schema == schema for version in versions):
        yield Work(check_new, (given(state, schema),))
    level = state.level(subject)
    every = level if level is Level.NONE or level.is_transitive or len(versions) < 2 else Level(f"{level}_TRANSITIVE")
    found = yield from _compared(state, versions, schema, every)
    answer: dict[str, Any] = {"is_compatible": not found}
    return Decision({**answer, "messages": found} if is_verbose else answer)
