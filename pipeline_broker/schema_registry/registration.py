"""Registration, lookup and comparison of schemas.

An operation decides on the registry's state. It yields CPU-bound work for the worker process and is sent the result.
The state may change while the operation waits. So before the caller records the changes, it must check that the state
is still the one of the decision.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

import attrs

from pipeline_broker.base.strict_json import InvalidJsonError, load
from pipeline_broker.schema_registry.contracts import group_values, merged_metadata, merged_rules
from pipeline_broker.schema_registry.errors import RegistryError, incompatible, invalid_schema, not_permitted
from pipeline_broker.schema_registry.formats import (
    TEXT_CHARACTERS_MAX,
    Recognized,
    ResolvedSchema,
    canonical,
    check_new,
    compare,
    reserved_differences,
    serialized,
)
from pipeline_broker.schema_registry.matching import is_same, same_in_subject, same_schema_id
from pipeline_broker.schema_registry.records import Change, Config, VersionChange
from pipeline_broker.schema_registry.references import resolve
from pipeline_broker.schema_registry.state import LATEST, TEXT_BYTES_MAX, VERSIONS_MAX, RegistryState
from pipeline_broker.schema_registry.values import Level, Mode, Schema, SchemaType, Version
from pipeline_broker.worker.work import Work

__all__ = [
    "SMALL_BYTES_MAX",
    "Decision",
    "Steps",
    "compatibility",
    "in_form",
    "lookup",
    "read_json",
    "register",
    "remembering",
    "shown",
]

# Versions that a new one is compared with: the latest ones.
COMPARED_MAX = 1_000
COMPARED_AT_ONCE_MAX = 50
# Settings that add metadata or rules to a schema.
MERGED = frozenset({"defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"})
SMALL_BYTES_MAX = 16 << 10
"""JSON up to this size is parsed within 2 ms, whatever it contains, so it needs no worker process."""


@attrs.frozen
class Decision:
    """The answer to a request, and the changes to record before it is sent.

    Attributes:
        body: a JSON value, a mapping in which values may be RawJson, or an iterable of such elements.
        changes: to be durable before the answer is sent.
        is_text: whether the body is sent as plain text.
    """

    body: Any
    changes: Sequence[Change] = ()
    is_text: bool = False


Steps: TypeAlias = Generator[Work | None, Any, Decision]
"""An operation. It yields work and is sent its result, or yields None to give other operations a turn and is sent None.
Raises RegistryError if the request is refused.
"""


def remembering(steps: Steps, known: dict[Work, Any]) -> Steps:
    """Run an operation without repeating known work.

    Args:
        steps: the operation.
        known: results by work. Known work is not yielded; results of other work are added.
    """
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
    schema = yield from in_form(state, version.schema, form)
    return Decision({**version.as_json(), **schema})


def in_form(state: RegistryState, schema: Schema, form: str) -> Generator[Work | None, Any, dict[str, Any]]:
    """Return the fields of a schema. The form `serialized` is a Protobuf descriptor; others mean the stored form.

    Raises:
        RegistryError: the schema cannot be serialized, such as for an unresolved reference.
    """
    fields = schema.as_json()
    if form == "serialized" and schema.type is SchemaType.PROTOBUF:
        fields["schema"] = yield Work(serialized, (resolve(state, schema),))
    return fields


@attrs.frozen
class Wanted:
    """The body of a request that contains a schema, with the id and version that an import names."""

    schema: Schema
    schema_id: int | None
    number: int | None

    @classmethod
    def read(cls, body: bytes) -> Wanted:
        content = read_json(body)
        return cls(Schema.read(content, may_be_empty=True), _number(content, "id"), _number(content, "version"))


def read_json(body: bytes) -> Any:
    try:
        return load(body)
    except InvalidJsonError as error:
        raise RegistryError(400, f"The body is not JSON: {error}") from None


def _wanted(body: bytes) -> Generator[Work | None, Any, Wanted]:
    if len(body) <= SMALL_BYTES_MAX:
        return Wanted.read(body)
    wanted: Wanted = yield Work(Wanted.read, (body,))
    return wanted


def _recognized(
    state: RegistryState, wanted: Wanted, *, is_normalized: bool
) -> Generator[Work | None, Any, Recognized]:
    if not wanted.schema.text.strip():
        raise invalid_schema("Empty schema")
    recognized: Recognized = yield Work(canonical, (resolve(state, wanted.schema), is_normalized))
    return recognized


def register(state: RegistryState, subject: str, body: bytes, *, is_normalized: bool) -> Steps:
    """Register a schema as a version of a subject, unless it is one already.

    The answer is the id of the schema, or the whole version if it exists already and `is_normalized` is True.

    Raises:
        RegistryError: the schema is invalid or incompatible, the mode forbids the registration, or the registry is
            full.
    """
    mode = state.mode_in_scope(subject)
    if mode.is_read_only:
        raise not_permitted(f"Subject {subject} is in read-only mode")
    wanted = yield from _wanted(body)
    latest = next(iter(state.versions(subject)[-1:]), None)
    if not wanted.schema.text.strip() and latest is not None:  # new metadata or rules for the latest schema
        before = latest.schema
        schema = attrs.evolve(wanted.schema, type=before.type, text=before.text, references=before.references)
        wanted = attrs.evolve(wanted, schema=schema)
    recognized = yield from _recognized(state, wanted, is_normalized=is_normalized)
    config = state.config_in_scope(subject)
    # If the configuration adds metadata or rules, only the completed schema can equal a registered one.
    if not config.keys() & MERGED:
        registered = yield from same_in_subject(state, subject, recognized)
        if registered is not None and wanted.schema_id in (None, registered.schema_id):
            return _known(registered, is_normalized=is_normalized)
    if mode is Mode.IMPORT:
        return (yield from _imported(state, subject, recognized, wanted))
    if wanted.schema_id is not None:
        raise not_permitted(f"Subject {subject} is not in import mode")
    completed = yield from _with_contract(recognized.schema, latest.schema if latest is not None else None, config)
    if completed != recognized.schema or config.keys() & MERGED:
        recognized = recognized._replace(schema=completed)
        registered = yield from same_in_subject(state, subject, recognized)
        if registered is not None:
            return _known(registered, is_normalized=is_normalized)
    return (yield from _registered(state, subject, recognized, wanted))


def _known(version: Version, *, is_normalized: bool) -> Decision:
    return Decision(version.as_json() if is_normalized else {"id": version.schema_id})


def _with_contract(schema: Schema, latest: Schema | None, config: Config) -> Generator[Work | None, Any, Schema]:
    """Return a schema with its own metadata and rules or the latest version's, merged with the configuration's."""
    metadata = schema.metadata if schema.metadata is not None or latest is None else latest.metadata
    rules = schema.rule_set if schema.rule_set is not None or latest is None else latest.rule_set
    if config.keys() & {"defaultMetadata", "overrideMetadata"}:
        every = (config.get("defaultMetadata"), metadata, config.get("overrideMetadata"))
        metadata = yield Work(merged_metadata, (every,))
    if config.keys() & {"defaultRuleSet", "overrideRuleSet"}:
        every = (config.get("defaultRuleSet"), rules, config.get("overrideRuleSet"))
        rules = yield Work(merged_rules, (every,))
    return attrs.evolve(schema, metadata=metadata, rule_set=rules)


def _registered(state: RegistryState, subject: str, recognized: Recognized, wanted: Wanted) -> Steps:
    schema = recognized.schema
    yield Work(check_new, (resolve(state, schema), recognized.identity))
    found = yield from _compared(state, subject, state.versions(subject), schema)
    if found:
        raise incompatible(
            f'Schema being registered is incompatible with an earlier schema for subject "{subject}",'
            f" details: [{', '.join(found)}]"
        )
    # An equal schema of another subject keeps its id, so that all subjects share it.
    schema_id = (yield from same_schema_id(state, recognized)) or state.next_id
    number = state.next_number(subject)
    if wanted.number not in (None, number, LATEST):
        raise invalid_schema(f"Version is not one more than previous version: {wanted.number} instead of {number}")
    return _new_version(state, Version(subject, number, schema_id, schema), recognized)


def _imported(state: RegistryState, subject: str, recognized: Recognized, wanted: Wanted) -> Steps:
    if wanted.schema_id is None:
        raise not_permitted(f"Subject {subject} is in import mode. Name the id of the schema in the request.")
    if state.schema(wanted.schema_id) is not None and not (yield from is_same(state, wanted.schema_id, recognized)):
        raise RegistryError(42207, f"The id {wanted.schema_id} belongs to a different schema. Choose another id.")
    number = wanted.number or state.next_number(subject)
    return _new_version(state, Version(subject, number, wanted.schema_id, recognized.schema), recognized)


def _new_version(state: RegistryState, version: Version, recognized: Recognized) -> Decision:
    shared = state.schema(version.schema_id)
    if shared is not None:  # an equal schema may have another text, but the text of an id never changes
        version = attrs.evolve(version, schema=shared)
    change = VersionChange(version.subject, version.number, version)
    if not state.has_room(change):
        raise not_permitted(
            f"The registry is full: it keeps at most {VERSIONS_MAX} versions and {TEXT_BYTES_MAX >> 20} MiB of their"
            " texts. Delete versions permanently."
        )
    state.schemas.expect(version.schema, recognized.sketch)
    return Decision({"id": version.schema_id}, [change])


def _number(body: Any, name: str) -> int | None:
    number = body.get(name) if isinstance(body, dict) else None
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not LATEST <= number < 2**31):
        raise RegistryError(422, f"{name} is not a number")
    return None if number in (None, LATEST) or (name == "id" and number < 0) else number


def _compared(
    state: RegistryState, subject: str, versions: Sequence[Version], schema: Schema
) -> Generator[Work | None, Any, list[str]]:
    """Return why a schema is incompatible with versions, by the subject's settings; empty if it is compatible."""
    config, level = state.config_in_scope(subject), state.level(subject)
    if config.get("validateFields") is True:
        before = versions[-1].schema.metadata if versions else None
        if found := (yield Work(reserved_differences, (resolve(state, schema), before))):
            return list(found)
    if level is Level.NONE:
        return []
    of_group = yield from _of_group(versions, schema, config.get("compatibilityGroup"))
    # Latest first: the error names the latest incompatible version.
    compared = list(reversed(of_group if level.is_transitive else of_group[-1:]))[:COMPARED_MAX]
    new = resolve(state, schema)
    some: list[tuple[Version, ResolvedSchema]] = []
    characters = 0
    for version in compared:
        yield None
        old = resolve(state, version.schema)
        # Pieces of work stay small, because the worker process has a time limit for each.
        if some and (len(some) >= COMPARED_AT_ONCE_MAX or characters + old.text_characters > TEXT_CHARACTERS_MAX):
            if found := (yield Work(compare, (new, tuple(some), level))):
                return list(found)
            some, characters = [], 0
        some.append((version, old))
        characters += old.text_characters
    return list((yield Work(compare, (new, tuple(some), level)))) if some else []


def _of_group(
    versions: Sequence[Version], schema: Schema, group: object
) -> Generator[Work | None, Any, Sequence[Version]]:
    """Return the versions with the same value as the schema for the metadata property `group`; all without a group."""
    if not isinstance(group, str) or not group:
        return versions
    every = tuple(dict.fromkeys([schema.metadata, *(version.schema.metadata for version in versions)]))
    values = dict(zip(every, (yield Work(group_values, (every, group))), strict=True))
    return [version for version in versions if values[version.schema.metadata] == values[schema.metadata]]


def lookup(
    state: RegistryState, subject: str, body: bytes, *, is_normalized: bool, with_deleted: bool, form: str
) -> Steps:
    """Return the version of a subject that equals a schema.

    Args:
        with_deleted: also find soft-deleted versions.
        form: the form of the schema in the answer, as in `in_form`.

    Raises:
        RegistryError: the body is invalid, the subject does not exist, or no version equals the schema.
    """
    state.existing_versions(subject, with_deleted=with_deleted)
    wanted = yield from _wanted(body)
    recognized = yield from _recognized(state, wanted, is_normalized=is_normalized)
    version = yield from same_in_subject(state, subject, recognized, with_deleted=with_deleted)
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
    wanted = yield from _wanted(body)
    recognized = yield from _recognized(state, wanted, is_normalized=is_normalized)
    schema = recognized.schema
    # A registered schema is exempt from the checks of a new one.
    if not any(version.schema == schema for version in versions):
        yield Work(check_new, (resolve(state, schema), recognized.identity))
    found = yield from _compared(state, subject, versions, schema)
    answer: dict[str, Any] = {"is_compatible": not found}
    return Decision({**answer, "messages": found} if is_verbose else answer)
