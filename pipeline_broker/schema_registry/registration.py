"""Schemas are registered, looked up and compared: what is decided, and what must be worked out for it.

Rules of this file: no I/O. What takes time is yielded as work, for a thread, and what it finds comes back; a decision
is made at once when all is known, on the state as it is then, and returns what must be recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

import attrs

from pipeline_broker.schema_registry.errors import RegistryError, incompatible, invalid_schema, not_permitted
from pipeline_broker.schema_registry.formats import Given, canonical, check_new, incompatibilities, serialized
from pipeline_broker.schema_registry.records import Change, VersionChange
from pipeline_broker.schema_registry.state import LATEST, RegistryState
from pipeline_broker.schema_registry.values import Level, Mode, Reference, Schema, SchemaType, Version

__all__ = ["Decision", "Steps", "compatibility", "given", "lookup", "register", "shown"]

VERSIONS_MAX = 10_000
"""Of all subjects, those that are deleted softly too."""
TEXT_CHARACTERS_MAX = 64 << 20
"""Of all versions."""
DEPENDENCIES_MAX = 200
"""Of one schema, with what they need themselves."""
COMPARED_MAX = 1_000
"""Versions that a new one is compared with."""
SHOWN_CHARACTERS_MAX = 4_000
"""Of an old schema in an error."""


@attrs.frozen
class Decision:
    """The answer, once the changes are recorded.

    Attributes:
        body: of the answer, as JSON has it.
        changes: what must be recorded first.
        is_text: whether the body is a text that is no JSON.
    """

    body: Any
    changes: Sequence[Change] = ()
    is_text: bool = False


Steps: TypeAlias = Generator[Callable[[], Any], Any, Decision]
"""Yields work and is sent what it found; raises RegistryError."""


def given(state: RegistryState, schema: Schema) -> Given:
    """A schema with what it refers to; raises RegistryError where that is not there."""
    found: dict[str, str] = {}
    _collect(state, schema.references, found, ())
    return Given(schema, tuple(found.items()))


def _collect(
    state: RegistryState, references: Sequence[Reference], found: dict[str, str], path: tuple[Reference, ...]
) -> None:
    for reference in references:
        if reference in path:
            raise invalid_schema(f"The reference {reference.name!r} leads to itself")
        if reference.name in found:
            continue
        try:
            schema = state.resolved(reference).schema
        except RegistryError as error:
            raise invalid_schema(f"The reference {reference.name!r} leads to nothing: {error.message}") from None
        _collect(state, schema.references, found, (*path, reference))
        found[reference.name] = schema.text
        if len(found) > DEPENDENCIES_MAX:
            raise invalid_schema(f"A schema needs at most {DEPENDENCIES_MAX} others")


def shown(state: RegistryState, version: Version, form: str) -> Steps:
    """A version, in the form that the client asked for."""
    schema = yield from in_form(state, version.schema, form)
    return Decision({**version.as_json(), **schema})


def in_form(state: RegistryState, schema: Schema, form: str) -> Generator[Callable[[], Any], Any, dict[str, Any]]:
    """A schema for an answer; `serialized` of Protobuf is its descriptor, other forms are as it is kept."""
    fields = schema.as_json()
    if form == "serialized" and schema.type is SchemaType.PROTOBUF:
        fields["schema"] = yield functools.partial(serialized, given(state, schema))
    return fields


def register(state: RegistryState, subject: str, body: Any, *, is_normalized: bool) -> Steps:
    """A schema becomes a version of a subject, unless it is one already; the answer is its id."""
    mode, wanted_id, wanted_number = state.mode_in_scope(subject), _number(body, "id"), _number(body, "version")
    if mode.is_read_only:
        raise not_permitted(f"Subject {subject} is in read-only mode")
    schema = yield functools.partial(canonical, given(state, Schema.read(body)), is_normalized=is_normalized)
    if (registered := _registered(state, subject, schema)) is not None and wanted_id in (None, registered.schema_id):
        return Decision(registered.as_json() if is_normalized else {"id": registered.schema_id})
    if mode is Mode.IMPORT:
        return _imported(state, subject, schema, wanted_id, wanted_number)
    if wanted_id is not None:
        raise not_permitted(f"Subject {subject} is not in import mode")
    yield functools.partial(check_new, given(state, schema))
    found = yield _comparison(state, state.versions(subject), schema, state.level(subject))
    if found:
        raise incompatible(
            f'Schema being registered is incompatible with an earlier schema for subject "{subject}",'
            f" details: [{', '.join(found)}]"
        )
    if (registered := _registered(state, subject, schema)) is not None:
        return Decision({"id": registered.schema_id})
    schema_id = state.id_of(schema) or state.next_id
    number = state.next_number(subject)
    if wanted_number not in (None, number, LATEST):
        raise invalid_schema(f"Version is not one more than previous version: {wanted_number} instead of {number}")
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
    if state.versions_count >= VERSIONS_MAX or state.text_bytes + len(version.schema.text) > TEXT_CHARACTERS_MAX:
        raise not_permitted(
            f"This registry keeps at most {VERSIONS_MAX} versions with {TEXT_CHARACTERS_MAX} characters;"
            " delete some for good"
        )
    return Decision({"id": version.schema_id}, [VersionChange(version.subject, version.number, version)])


def _number(body: Any, name: str) -> int | None:
    number = body.get(name) if isinstance(body, dict) else None
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not LATEST <= number < 2**31):
        raise RegistryError(422, f"{name} is not a number")
    return None if number in (None, LATEST) or (name == "id" and number < 0) else number


def _registered(state: RegistryState, subject: str, schema: Schema, *, with_deleted: bool = False) -> Version | None:
    """The latest version of a subject that is this schema."""
    versions = state.versions(subject, with_deleted=with_deleted)
    return next((version for version in reversed(versions) if version.schema == schema), None)


def _comparison(
    state: RegistryState, versions: Sequence[Version], schema: Schema, level: Level
) -> Callable[[], list[str]]:
    """The work that finds out why a schema does not go together with versions, the latest first."""
    compared = list(reversed(versions if level.is_transitive else versions[-1:]))[:COMPARED_MAX]
    new = given(state, schema)
    others = [] if level is Level.NONE else [(version, given(state, version.schema)) for version in compared]

    def compare() -> list[str]:
        for version, old in others:
            found: list[str] = []
            if level.is_backward:
                found += incompatibilities(new, old)
            if level.is_forward:
                found += incompatibilities(old, new)
            if found:
                return [
                    *(f"{{errorType: '{each.partition(' at ')[0]}', description: '{each}'}}" for each in found),
                    f"{{oldSchemaVersion: {version.number}}}",
                    f"{{oldSchema: '{version.schema.text[:SHOWN_CHARACTERS_MAX]}'}}",
                    f"{{compatibility: '{level.value}'}}",
                ]
        return []

    return compare


def lookup(
    state: RegistryState, subject: str, body: Any, *, is_normalized: bool, with_deleted: bool, form: str
) -> Steps:
    """The version of a subject that is this schema."""
    state.existing_versions(subject, with_deleted=with_deleted)
    schema = yield functools.partial(canonical, given(state, Schema.read(body)), is_normalized=is_normalized)
    version = _registered(state, subject, schema, with_deleted=with_deleted)
    if version is None:
        raise RegistryError(40403, "Schema not found")
    return (yield from shown(state, version, form))


def compatibility(
    state: RegistryState, subject: str, versions: Sequence[Version], body: Any, *, is_normalized: bool, is_verbose: bool
) -> Steps:
    """Whether a schema would go together with versions of a subject, all of them."""
    schema = yield functools.partial(canonical, given(state, Schema.read(body)), is_normalized=is_normalized)
    if not any(version.schema == schema for version in versions):
        yield functools.partial(check_new, given(state, schema))
    level = state.level(subject)
    every = level if level is Level.NONE or level.is_transitive or len(versions) < 2 else Level(f"{level}_TRANSITIVE")
    found = yield _comparison(state, versions, schema, every)
    answer: dict[str, Any] = {"is_compatible": not found}
    return Decision({**answer, "messages": found} if is_verbose else answer)
