"""The search for a registered schema that equals a client's schema.

Operations yield CPU-bound work, as in `registration`. Results are kept in the state's `SchemaIndex`, so each registered
schema is analysed once.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import Any, TypeAlias

from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.formats import TEXT_CHARACTERS_MAX, Recognized, registered_identity, sketches
from pipeline_broker.schema_registry.references import resolve
from pipeline_broker.schema_registry.state import RegistryState
from pipeline_broker.schema_registry.values import SchemaType, Version
from pipeline_broker.worker.work import Work

__all__ = ["is_same", "same_in_subject", "same_schema_id"]

# Texts in one piece of work.
SKETCHED_AT_ONCE_MAX = 1_000
# Schemas with the same sketch that one request compares: the latest ones.
ALIKE_MAX = 1_000
# Identities that one request computes, of schemas with the same sketch or with references.
COMPILED_MAX = 200
# Stands for the identity of a registered text that cannot be parsed, so that it is not parsed again.
NOT_A_SCHEMA = "-"

Found: TypeAlias = Generator[Work | None, Any, set[int]]


def same_schema_id(state: RegistryState, wanted: Recognized) -> Generator[Work | None, Any, int | None]:
    """Return the lowest id of the registered schemas, of any subject, that equal a schema; None if none does."""
    return min((yield from _same(state, wanted, None)), default=None)


def is_same(state: RegistryState, schema_id: int, wanted: Recognized) -> Generator[Work | None, Any, bool]:
    return bool((yield from _same(state, wanted, {schema_id})))


def same_in_subject(
    state: RegistryState, subject: str, wanted: Recognized, *, with_deleted: bool = False
) -> Generator[Work | None, Any, Version | None]:
    """Return the latest version of a subject that equals a schema; None if none does.

    An Avro schema without references also equals one with references if they are the same once the references are
    resolved. Java's serializer sends schemas in that form.
    """
    versions = state.versions(subject, with_deleted=with_deleted)
    found = yield from _same(state, wanted, {version.schema_id for version in versions})
    if not found and wanted.schema.type is SchemaType.AVRO and not wanted.schema.references:
        found = yield from _resolved(state, wanted, versions)
    return next((version for version in reversed(versions) if version.schema_id in found), None)


def _same(state: RegistryState, wanted: Recognized, ids: Collection[int] | None) -> Found:
    schema = wanted.schema
    yield from _sketch(state, schema.type, ids)
    found = set()
    compiled = 0
    # Latest first: beyond the bounds, the oldest schemas are left out.
    for schema_id in reversed(state.schemas.alike(wanted.sketch)[-ALIKE_MAX:]):
        other = state.schema(schema_id)
        if other is None or (ids is not None and schema_id not in ids) or not other.has_same_contract(schema):
            continue
        is_found = other.text == schema.text and other.references == schema.references
        if not is_found and other.has_same_references(schema):
            # With the same references, the sketch decides for Avro and JSON, but not for Protobuf.
            is_found = schema.type is not SchemaType.PROTOBUF
            if not is_found and compiled < COMPILED_MAX:
                compiled += 1
                is_found = (yield from _identity(state, schema_id)) == wanted.identity
        if is_found:
            found.add(schema_id)
    return found


def _resolved(state: RegistryState, wanted: Recognized, versions: Collection[Version]) -> Found:
    """Return the ids of schemas that have references and, once resolved, equal `wanted`, among COMPILED_MAX."""
    ids = {it.schema_id for it in versions if it.schema.references and it.schema.has_same_contract(wanted.schema)}
    found = set()
    for schema_id in sorted(ids)[-COMPILED_MAX:]:
        if (yield from _identity(state, schema_id)) == wanted.identity:
            found.add(schema_id)
    return found


def _sketch(
    state: RegistryState, schema_type: SchemaType, ids: Collection[int] | None
) -> Generator[Work | None, Any, None]:
    waiting: list[int] = []
    characters = 0
    for schema_id in state.schemas.without_sketch(schema_type, ids):
        size = len(state.schemas[schema_id].text)
        if waiting and (len(waiting) >= SKETCHED_AT_ONCE_MAX or characters + size > TEXT_CHARACTERS_MAX):
            yield from _sketch_some(state, schema_type, waiting)
            waiting, characters = [], 0
        waiting.append(schema_id)
        characters += size
    if waiting:
        yield from _sketch_some(state, schema_type, waiting)


def _sketch_some(state: RegistryState, schema_type: SchemaType, ids: list[int]) -> Generator[Work | None, Any, None]:
    schemas = {each: schema for each in ids if (schema := state.schema(each)) is not None}
    texts = tuple(schema.text for schema in schemas.values())
    found = yield Work(sketches, (schema_type, texts))
    for (schema_id, schema), sketch in zip(schemas.items(), found, strict=True):
        if state.schema(schema_id) is schema:  # a record may have replaced it during the work
            state.schemas.set_sketch(schema_id, sketch)


def _identity(state: RegistryState, schema_id: int) -> Generator[Work | None, Any, str | None]:
    """Return the identity of a schema, or NOT_A_SCHEMA; None if the schema or a reference is unknown."""
    found = state.schemas.identity(schema_id)
    schema = state.schema(schema_id)
    if found is not None or schema is None:
        return found
    try:
        it = resolve(state, schema)
    except RegistryError:
        return None
    found = (yield Work(registered_identity, (it,))) or NOT_A_SCHEMA
    if state.schema(schema_id) is schema:
        state.schemas.set_identity(schema_id, found)
    return found
