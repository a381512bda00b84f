"""The REST API of Confluent's schema registry: a table of paths and their operations.

Paths, parameters and answers follow Confluent's "Schema Registry API Reference" (docs.confluent.io).

Longer than most files: an operation takes a few lines, and the table holds all of them.
"""

from __future__ import annotations

import functools
import http
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import attrs

from pipeline_broker.base.numbers import whole_number
from pipeline_broker.base.strict_json import dump, dump_object
from pipeline_broker.schema_registry.errors import (
    RegistryError,
    not_permitted,
    reference_exists,
    schema_not_found,
    subject_not_configured,
    subject_not_found,
    subject_state,
    version_state,
)
from pipeline_broker.schema_registry.records import (
    Change,
    Config,
    ConfigChange,
    ModeChange,
    SubjectDeleted,
    VersionChange,
    kept_setting,
)
from pipeline_broker.schema_registry.registration import (
    SMALL_BYTES_MAX,
    Decision,
    Steps,
    compatibility,
    in_form,
    lookup,
    read_json,
    register,
    shown,
)
from pipeline_broker.schema_registry.settings import read_settings
from pipeline_broker.schema_registry.state import (
    LATEST,
    SUBJECTS_WITH_SETTINGS_MAX,
    TEXT_BYTES_MAX,
    VERSION_MAX,
    RegistryState,
    read_version,
)
from pipeline_broker.schema_registry.values import Mode, SchemaType, Version
from pipeline_broker.web.messages import Answer, BadRequestError, HttpRequest, StreamedAnswer
from pipeline_broker.worker.work import Work

__all__ = ["CONTENT_TYPE", "TABLE", "Operation", "answer_of", "error_answer", "find_operation", "is_change"]

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
SUBJECT_CHARACTERS_MAX = 1024
# Elements in one answer, unless `limit` asks for fewer.
LISTED_MAX = 10_000
# Size of one piece of a streamed list. It takes less than 1 ms to build, unless a single element is larger.
PIECE_CHARACTERS, PIECE_ELEMENTS = 64 << 10, 500
# Versions that one step of a permanent deletion covers.
AT_ONCE_MAX = 500


@attrs.frozen
class Call:
    """A request and the state on which it is decided.

    Attributes:
        arguments: the path segments that match ANY in the table, in order.
    """

    state: RegistryState
    arguments: Sequence[str]
    request: HttpRequest

    @property
    def subject(self) -> str:
        """The subject that the first argument names, with aliases resolved. Raises RegistryError like `named`."""
        return self.state.alias_target(self.named)

    @property
    def named(self) -> str:
        """The first argument as a subject name.

        Raises:
            RegistryError: the name is longer than SUBJECT_CHARACTERS_MAX or has unprintable characters.
        """
        subject = self.arguments[0]
        if not subject.isprintable() or len(subject) > SUBJECT_CHARACTERS_MAX:
            raise RegistryError(42208, f"The specified subject '{subject[:100]!r}' is not a valid subject.")
        return subject

    def flag(self, name: str) -> bool:
        return self.request.query.get(name, "").lower() == "true"

    @property
    def form(self) -> str:
        return self.request.query.get("format", "")

    @property
    def is_normalized(self) -> bool:
        return self.flag("normalize") or self.state.config_in_scope(self.subject).get("normalize") is True

    @property
    def body(self) -> bytes:
        return self.request.body

    def version(self, *, with_deleted: bool = False) -> Version:
        """Return the version that the first two arguments name.

        Raises:
            RegistryError: the subject or the version number is malformed, or does not exist.
        """
        return self.state.version(self.subject, read_version(self.arguments[1]), with_deleted=with_deleted)

    def part_of(self, found: Sequence[Item]) -> Sequence[Item]:
        """Return the part of a list that `offset` and `limit` select, at most LISTED_MAX elements.

        Raises:
            BadRequestError: `offset` is not a whole number.
        """
        offset, limit = self.request.integer("offset", 0), self.request.query.get("limit", "")
        count = whole_number(limit, 0, LISTED_MAX)
        return found[offset : offset + (LISTED_MAX if count is None else count)]

    def page(self, found: Sequence[Any]) -> Decision:
        return Decision(self.part_of(found))


Item = TypeVar("Item")
Operation: TypeAlias = Callable[[RegistryState, HttpRequest], "Decision | Steps"]


# Schemas by their ids


def _schema_id(call: Call) -> int:
    text = call.arguments[0]
    number = whole_number(text, 0, VERSION_MAX)
    if number is None or call.state.schema(number) is None:
        raise schema_not_found(number)
    return number


def _versions_of(call: Call) -> list[Version]:
    schema_id, with_deleted = _schema_id(call), call.flag("deleted")
    wanted = call.state.alias_target(call.request.query.get("subject", ""))
    return sorted(
        (
            version
            for version in call.state.all_versions()
            if version.schema_id == schema_id
            and (with_deleted or not version.is_deleted)
            and wanted in ("", version.subject)
        ),
        key=lambda version: (version.subject, version.number),
    )


def _get_schema(call: Call) -> Steps:
    schema = call.state.schema(_schema_id(call))
    assert schema is not None, "_schema_id has checked the id"
    fields = yield from in_form(call.state, schema, call.form)
    if call.flag("fetchMaxId"):
        fields["maxId"] = call.state.next_id - 1
    return Decision(fields)


def _get_schema_text(call: Call) -> Steps:
    decision = yield from _get_schema(call)
    return Decision(decision.body["schema"], is_text=True)


def _get_schema_subjects(call: Call) -> Decision:
    return call.page(list(dict.fromkeys(version.subject for version in _versions_of(call))))


def _get_schema_versions(call: Call) -> Decision:
    return call.page([{"subject": version.subject, "version": version.number} for version in _versions_of(call)])


def _list_schemas(call: Call) -> Steps:
    prefix, with_deleted = call.request.query.get("subjectPrefix", ""), call.flag("deleted")
    found: list[Version] = []
    yield None
    for subject in call.state.subjects(with_deleted=with_deleted):
        # `:*:` selects all contexts. This registry has only the default one.
        if subject.startswith(prefix.removeprefix(":*:")):
            versions = call.state.versions(subject, with_deleted=with_deleted)
            found += versions[-1:] if call.flag("latestOnly") else versions
        yield None
    # Lazy, because the texts are large: each version is serialized when it is sent.
    return Decision(version.as_json() for version in call.part_of(found))


def _list_types(_: Call) -> Decision:
    return Decision([kind.value for kind in (SchemaType.JSON, SchemaType.PROTOBUF, SchemaType.AVRO)])


# Subjects and versions


def _list_subjects(call: Call) -> Decision:
    prefix = call.request.query.get("subjectPrefix", "").removeprefix(":*:")
    only_deleted = call.flag("deletedOnly")
    subjects = call.state.subjects(with_deleted=only_deleted or call.flag("deleted"))
    live = frozenset(call.state.subjects()) if only_deleted else frozenset()
    return call.page([subject for subject in subjects if subject.startswith(prefix) and subject not in live])


def _list_versions(call: Call) -> Decision:
    only_deleted = call.flag("deletedOnly")
    versions = call.state.existing_versions(call.subject, with_deleted=only_deleted or call.flag("deleted"))
    return call.page([version.number for version in versions if version.is_deleted or not only_deleted])


def _register(call: Call) -> Steps:
    return register(call.state, call.subject, call.body, is_normalized=call.is_normalized)


def _lookup(call: Call) -> Steps:
    return lookup(
        call.state,
        call.subject,
        call.body,
        is_normalized=call.is_normalized,
        with_deleted=call.flag("deleted"),
        form=call.form,
    )


def _get_version(call: Call) -> Steps:
    return shown(call.state, call.version(with_deleted=call.flag("deleted")), call.form)


def _get_version_text(call: Call) -> Steps:
    decision = yield from _get_version(call)
    return Decision(decision.body["schema"], is_text=True)


def _get_referenced_by(call: Call) -> Decision:
    return call.page(call.state.referenced_by(call.version(with_deleted=True)))


def _check_writable(call: Call) -> None:
    if call.state.mode_in_scope(call.subject).is_read_only:
        raise not_permitted(f"Subject {call.subject} is in read-only mode")


def _check_unreferenced(state: RegistryState, versions: Sequence[Version]) -> None:
    for version in versions:
        if state.is_referenced(version):
            raise reference_exists(version.subject, version.number)


def _delete_version(call: Call) -> Decision:
    _check_writable(call)
    state, subject, is_permanent = call.state, call.subject, call.flag("permanent")
    number = read_version(call.arguments[1])
    # A soft deletion of `latest` means the latest live version, a permanent one any latest version.
    if number == LATEST and not is_permanent:
        number = state.version(subject, LATEST).number
    version = state.version(subject, number, with_deleted=True)
    if is_permanent and not version.is_deleted:
        raise version_state(subject, version.number, is_deleted=False)
    if not is_permanent and version.is_deleted:
        raise version_state(subject, version.number, is_deleted=True)
    if not is_permanent:
        _check_unreferenced(state, [version])
    after = None if is_permanent else attrs.evolve(version, is_deleted=True)
    return Decision(version.number, [VersionChange(subject, version.number, after)])


def _delete_subject(call: Call) -> Steps:
    _check_writable(call)
    state, subject = call.state, call.subject
    every, live = state.existing_versions(subject, with_deleted=True), state.versions(subject)
    if call.flag("permanent"):
        if live:
            raise subject_state(subject, is_deleted=False)
        changes: list[Change] = []
        for first in range(0, len(every), AT_ONCE_MAX):
            changes += (VersionChange(subject, it.number, None) for it in every[first : first + AT_ONCE_MAX])
            yield None
        # A new subject of this name starts without settings.
        changes += [ModeChange(subject, None)] if state.mode(subject) is not None else []
        changes += [ConfigChange(subject, None)] if state.config(subject) is not None else []
        return Decision([version.number for version in every], changes)
    if not live:
        raise subject_state(subject, is_deleted=True)
    _check_unreferenced(state, live)
    return Decision([version.number for version in live], [SubjectDeleted(subject, live[-1].number)])


def _check_compatibility(call: Call) -> Steps:
    if len(call.arguments) == 2:
        number = read_version(call.arguments[1])
        # Every schema is compatible with the latest version of a subject without versions.
        has_none = number == LATEST and not call.state.versions(call.subject)
        versions = [] if has_none else [call.state.version(call.subject, number)]
    else:
        versions = call.state.versions(call.subject)
    return compatibility(
        call.state,
        call.subject,
        versions,
        call.body,
        is_normalized=call.is_normalized,
        is_verbose=call.flag("verbose"),
    )


# Configurations and modes


def _configured_subject(call: Call) -> str | None:
    return call.named if call.arguments else None


def _get_config(call: Call) -> Decision:
    subject = _configured_subject(call)
    if subject is None or call.flag("defaultToGlobal"):
        return Decision(call.state.config_in_scope(subject))
    config = call.state.config(subject)
    if config is None:
        raise subject_not_configured(subject, "compatibility")
    return Decision(config)


def _read_fields(body: bytes) -> Config:
    content = read_json(body)
    if not isinstance(content, dict):
        raise RegistryError(422, "The body is not a JSON object")
    return {name: kept_setting(value) for name, value in content.items()}


def _fields(call: Call) -> Generator[Work | None, Any, Config]:
    if len(call.body) <= SMALL_BYTES_MAX:
        return _read_fields(call.body)
    fields: Config = yield Work(_read_fields, (call.body,))
    return fields


def _put_config(call: Call) -> Steps:
    subject, fields = _configured_subject(call), (yield from _fields(call))
    changed = read_settings(fields)
    # Settings are merged into the existing ones; null removes one.
    config = {
        name: value for name, value in {**(call.state.config(subject) or {}), **changed}.items() if value is not None
    }
    return _settings(call, fields, ConfigChange(subject, config))


def _delete_config(call: Call) -> Decision:
    subject = _configured_subject(call)
    config = call.state.config(subject)
    if config is None and subject is not None:
        raise subject_not_found(subject)
    return Decision(config or call.state.config_in_scope(None), [ConfigChange(subject, None)])


def _get_mode(call: Call) -> Decision:
    subject = _configured_subject(call)
    if subject is None or call.flag("defaultToGlobal"):
        return Decision({"mode": call.state.mode_in_scope(subject).value})
    mode = call.state.mode(subject)
    if mode is None:
        raise subject_not_configured(subject, "mode")
    return Decision({"mode": mode.value})


def _put_mode(call: Call) -> Steps:
    subject, fields = _configured_subject(call), (yield from _fields(call))
    wanted = fields.get("mode")
    if not isinstance(wanted, str) or wanted.upper() not in Mode.__members__:
        raise RegistryError(42204, f"Invalid mode. Valid values are {', '.join(Mode.__members__)}")
    mode = Mode(wanted.upper())
    state = call.state
    has_versions = bool(state.versions(subject) if subject is not None else state.subjects())
    if mode is Mode.IMPORT and state.mode_in_scope(subject) is not mode and has_versions and not call.flag("force"):
        raise not_permitted("Cannot import since found existing subjects")
    return _settings(call, {"mode": mode.value}, ModeChange(subject, mode))


def _delete_mode(call: Call) -> Decision:
    subject = _configured_subject(call)
    mode = call.state.mode(subject)
    if mode is None and subject is not None:
        raise subject_not_found(subject)
    return Decision({"mode": (mode or Mode.READWRITE).value}, [ModeChange(subject, None)])


def _settings(call: Call, answer: Config, change: ConfigChange | ModeChange) -> Decision:
    if not call.state.has_room(change):
        raise not_permitted(
            f"The registry is full: it keeps the settings of at most {SUBJECTS_WITH_SETTINGS_MAX} subjects and"
            f" {TEXT_BYTES_MAX >> 20} MiB of texts. Delete settings or versions."
        )
    return Decision(answer, [change])


# The table


def _empty(_: Call) -> Decision:
    return Decision({})


def _contexts(_: Call) -> Decision:
    return Decision(["."])


ANY = "*"
Decide: TypeAlias = Callable[[Call], "Decision | Steps"]
TABLE: Mapping[tuple[str, ...], Mapping[str, Decide]] = {
    (): {"GET": _empty},
    ("contexts",): {"GET": _contexts},
    ("schemas",): {"GET": _list_schemas},
    ("schemas", "types"): {"GET": _list_types},
    ("schemas", "ids", ANY): {"GET": _get_schema},
    ("schemas", "ids", ANY, "schema"): {"GET": _get_schema_text},
    ("schemas", "ids", ANY, "subjects"): {"GET": _get_schema_subjects},
    ("schemas", "ids", ANY, "versions"): {"GET": _get_schema_versions},
    ("subjects",): {"GET": _list_subjects},
    ("subjects", ANY): {"POST": _lookup, "DELETE": _delete_subject},
    ("subjects", ANY, "versions"): {"GET": _list_versions, "POST": _register},
    ("subjects", ANY, "versions", ANY): {"GET": _get_version, "DELETE": _delete_version},
    ("subjects", ANY, "versions", ANY, "schema"): {"GET": _get_version_text},
    ("subjects", ANY, "versions", ANY, "referencedby"): {"GET": _get_referenced_by},
    ("compatibility", "subjects", ANY, "versions"): {"POST": _check_compatibility},
    ("compatibility", "subjects", ANY, "versions", ANY): {"POST": _check_compatibility},
    ("config",): {"GET": _get_config, "PUT": _put_config, "DELETE": _delete_config},
    ("config", ANY): {"GET": _get_config, "PUT": _put_config, "DELETE": _delete_config},
    ("mode",): {"GET": _get_mode, "PUT": _put_mode, "DELETE": _delete_mode},
    ("mode", ANY): {"GET": _get_mode, "PUT": _put_mode, "DELETE": _delete_mode},
}
"""Operations by path and method. A path is a tuple of segments, in which ANY matches one segment."""


READS = frozenset({_lookup, _check_compatibility})
"""Operations that change nothing, whatever their method is."""


def find_operation(request: HttpRequest) -> Operation:
    """Return the operation of a request.

    Raises:
        RegistryError: 404 if the path is unknown, 405 if the path does not support the method.
    """
    return functools.partial(_run, *_find(request))


def is_change(request: HttpRequest) -> bool:
    """Return whether a request may change the registry. Raises RegistryError like `find_operation`."""
    decide, _ = _find(request)
    return request.method not in ("GET", "HEAD") and decide not in READS


def _find(request: HttpRequest) -> tuple[Decide, tuple[str, ...]]:
    parts = request.segments
    for pattern, methods in TABLE.items():
        if len(pattern) == len(parts) and all(
            wanted in (ANY, part) for wanted, part in zip(pattern, parts, strict=True)
        ):
            decide = methods.get("GET" if request.method == "HEAD" else request.method)
            if decide is None:
                raise RegistryError(405, "HTTP 405 Method Not Allowed")
            arguments = tuple(part for wanted, part in zip(pattern, parts, strict=True) if wanted == ANY)
            return decide, arguments
    raise RegistryError(404, "HTTP 404 Not Found")


def _run(decide: Decide, arguments: Sequence[str], state: RegistryState, request: HttpRequest) -> Decision | Steps:
    return decide(Call(state, arguments, request))


def answer_of(decision: Decision) -> Answer | StreamedAnswer:
    body = decision.body
    if not decision.is_text and not isinstance(body, str | bytes | Mapping) and isinstance(body, Iterable):
        return StreamedAnswer(pieces=_list_pieces(body), content_type=CONTENT_TYPE)
    text = body if decision.is_text else _element(body)
    return Answer(status=http.HTTPStatus.OK, body=text.encode(), content_type=CONTENT_TYPE)


def _list_pieces(elements: Iterable[Any]) -> Iterator[bytes]:
    parts, size, before = ["["], 0, ""
    for element in elements:
        text = before + _element(element)
        parts.append(text)
        size, before = size + len(text), ","
        if size >= PIECE_CHARACTERS or len(parts) >= PIECE_ELEMENTS:
            yield "".join(parts).encode()
            parts, size = [], 0
    parts.append("]")
    yield "".join(parts).encode()


def _element(content: Any) -> str:
    return dump_object(content) if isinstance(content, Mapping) else dump(content)


def error_answer(error: RegistryError | BadRequestError) -> Answer:
    code, message = (error.code, error.message) if isinstance(error, RegistryError) else (400, str(error))
    body = dump({"error_code": code, "message": message}).encode(errors="replace")
    status = http.HTTPStatus(error.status if isinstance(error, RegistryError) else 400)
    return Answer(status=status, body=body, content_type=CONTENT_TYPE)
