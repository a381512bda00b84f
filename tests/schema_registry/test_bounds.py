"""Records in the topic and requests of untrusted clients cost the registry a bounded amount."""

import json
import time

import pytest

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.schema_registry import formats, records, state
from pipeline_broker.schema_registry.api import answer_of
from pipeline_broker.schema_registry.decoding import CONTENT_BYTES_MAX, coded, decode_all
from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.records import (
    ConfigChange,
    ModeChange,
    SubjectDeleted,
    VersionChange,
    read_change,
    read_changes,
)
from pipeline_broker.schema_registry.references import DEPENDENCIES_MAX, FOLLOWED_MAX, resolve
from pipeline_broker.schema_registry.registration import Decision
from pipeline_broker.schema_registry.state import RegistryState
from pipeline_broker.schema_registry.values import Mode, Reference, Schema, SchemaType, Version
from tests.schema_registry.registry_desk import RegistryDesk, code


def version_of(subject, number, schema_id, text='"int"', references=(), kind=SchemaType.AVRO):
    return VersionChange(subject, number, Version(subject, number, schema_id, Schema(kind, text, tuple(references))))


@pytest.fixture
def registry():
    return RegistryState()


def test_versions_beyond_the_bounds_are_skipped_and_existing_ones_may_change(registry, monkeypatch):
    monkeypatch.setattr(state, "VERSIONS_MAX", 2)
    assert registry.apply(version_of("a", 1, 1))
    assert registry.apply(version_of("a", 2, 2, '"long"'))
    assert not registry.apply(version_of("a", 3, 3, '"string"'))
    deleted = Version("a", 1, 1, registry.schema(1), is_deleted=True)
    assert registry.apply(VersionChange("a", 1, deleted)), "a full registry can be emptied"
    assert registry.apply(VersionChange("a", 1, None))
    assert registry.apply(version_of("a", 3, 3, '"string"'))


def test_texts_and_references_and_settings_beyond_the_bounds_are_left_out(registry, monkeypatch):
    monkeypatch.setattr(state, "TEXT_BYTES_MAX", 2_000)
    monkeypatch.setattr(state, "REFERENCES_OF_ALL_MAX", 3)
    monkeypatch.setattr(state, "SUBJECTS_WITH_SETTINGS_MAX", 2)
    assert not registry.apply(version_of("a", 1, 1, "x" * 2_000))
    assert not registry.apply(version_of("a", 1, 1, "\u2603" * 1_000)), "two bytes each"
    assert not registry.apply(version_of("a", 1, 1, references=[Reference(f"r{n}", "s", 1) for n in range(4)]))
    assert not registry.apply(ConfigChange("a", {"alias": "x" * 2_000}))
    assert (registry.text_bytes, registry.versions_count, registry.references_count) == (0, 0, 0)
    assert registry.apply(ConfigChange("a", {"alias": "x" * 200}))
    assert registry.apply(ModeChange("b", Mode.READONLY))
    assert not registry.apply(ModeChange("c", Mode.READONLY))
    assert registry.apply(ModeChange("a", Mode.READONLY))
    assert registry.apply(ConfigChange("a", None))
    assert registry.text_bytes == 0


def test_the_counters_return_to_zero(registry):
    """In any order of setting, replacing, soft deletion and permanent deletion of versions."""
    reference = Reference("r", "base", 1)
    registry.apply(version_of("base", 1, 1))
    registry.apply(version_of("a", 1, 2, '"long"', [reference]))
    registry.apply(version_of("a", 2, 3, '"string"', [reference]))
    assert registry.referenced_by(registry.version("base", 1)) == [2, 3]
    registry.apply(SubjectDeleted("a", 1))
    assert registry.referenced_by(registry.version("base", 1)) == [3]
    registry.apply(version_of("a", 2, 4, '"bytes"'))
    assert not registry.is_referenced(registry.version("base", 1))
    for subject, number in (("a", 1), ("a", 2), ("base", 1)):
        registry.apply(VersionChange(subject, number, None))
    assert (registry.text_bytes, registry.versions_count, registry.references_count) == (0, 0, 0)
    assert (registry.subjects(with_deleted=True), registry.subjects()) == ([], [])


def test_versions_of_the_same_schema_share_its_text(registry):
    text = json.dumps({"type": "fixed", "name": "F", "size": 1, "doc": "x" * 1_000})
    for number in range(1, 4):
        registry.apply(version_of(f"s{number}", 1, 7, json.loads(json.dumps(text))))
    assert len({id(version.schema.text) for version in registry.all_versions()}) == 1


def test_the_deletion_of_a_subject_is_applied_in_steps(registry):
    for number in range(1, 101):
        registry.apply(version_of("a", number, number, f'"{number}"'))
    before = registry.revision
    assert sum(1 for _ in registry.apply_in_steps(SubjectDeleted("a", 100))) == 100
    assert registry.revision == before + 2, "decisions between two steps are made again"


@pytest.mark.parametrize("depth", [DEPENDENCIES_MAX - 1, DEPENDENCIES_MAX + 1, 5_000])
def test_references_are_followed_to_a_bounded_depth(registry, depth):
    for number in range(depth):
        references = [Reference(f"r{number + 1}", f"s{number + 1}", 1)] if number + 1 < depth else []
        registry.apply(version_of(f"s{number}", 1, number + 1, f'"{number}"', references))
    schema = Schema(SchemaType.AVRO, '"int"', (Reference("r0", "s0", 1),))
    if depth < DEPENDENCIES_MAX:
        assert len(resolve(registry, schema).dependencies) == depth
        return
    with pytest.raises(RegistryError, match="more than 200 other schemas"):
        resolve(registry, schema)


def test_references_that_many_schemas_have_are_followed_a_bounded_number_of_times(registry):
    """150 schemas, each with 100 references to those after it."""
    for number in range(150):
        references = [Reference(f"r{after}", f"s{after}", 1) for after in range(number + 1, min(150, number + 101))]
        registry.apply(version_of(f"s{number}", 1, number + 1, f'"{number}"', references))
    began = time.process_time()
    with pytest.raises(RegistryError, match=f"or has more than {FOLLOWED_MAX} references"):
        resolve(registry, Schema(SchemaType.AVRO, '"int"', (Reference("r0", "s0", 1),)))
    assert time.process_time() - began < 0.05


def batch_of(*records):
    return build_batch([NewRecord(value, key, 0) for key, value in records])


def test_a_batch_is_read_in_parts(monkeypatch):
    monkeypatch.setattr(records, "CHANGES_BYTES_MAX", 200)
    written = [version_of("a", number, number, f'"{number}"').record() for number in range(1, 8)]
    batch, offset, found, parts = batch_of(*written), 0, [], 0
    while offset < 7:
        changes, offset = read_changes(batch, offset)
        found += changes
        parts += 1
    assert [change.number for _, change in found] == [1, 2, 3, 4, 5, 6, 7]
    assert parts == 4


def test_only_the_first_unreadable_records_are_reported(monkeypatch):
    changes, after = read_changes(batch_of(*[(b"{", b"")] * 100, version_of("a", 1, 1).record()), 0)
    assert (len(changes), after) == (records.REASONS_MAX + 1, 101)
    assert isinstance(changes[0][1], str)
    assert isinstance(changes[-1][1], VersionChange)


def test_a_record_that_is_too_large_is_left_out():
    key = b'{"keytype":"CONFIG","subject":null,"magic":0}'
    with pytest.raises(records.UnreadableRecordError, match="larger than 4 MiB"):
        read_change(key, b'{"a":"' + b"x" * records.RECORD_BYTES_MAX + b'"}')


def test_a_list_is_made_while_it_is_taken():
    taken = []

    def versions():
        for number in range(10_000):
            taken.append(number)
            yield {"subject": "x" * 100, "version": number}

    pieces = answer_of(Decision(versions())).pieces
    assert (len(next(pieces)), len(taken)) == (pytest.approx(65_000, rel=0.1), pytest.approx(500, rel=0.1))
    rest = b"".join(pieces)
    assert rest.endswith(b"]")
    assert len(taken) == 10_000


def test_the_cache_of_schemas_is_bounded_by_their_texts(monkeypatch):
    monkeypatch.setattr(formats, "REMEMBERED_CHARACTERS_MAX", 300)
    for number in range(10):
        schema = Schema(SchemaType.JSON, json.dumps({"title": "x" * 100 + str(number)}))
        formats.parsed(formats.ResolvedSchema(schema, ()))
        assert sum(map(formats._characters, formats._remembered)) <= 300
    assert 0 < len(formats._remembered) <= 2


def test_payloads_beyond_the_bounds_are_not_decoded(registry, monkeypatch):
    registry.apply(version_of("a", 1, 1, '{"type":"string"}', kind=SchemaType.JSON))
    head = b"\0\0\0\0\1"
    contents = [head + b'"x"', head + b'"' + b"x" * CONTENT_BYTES_MAX + b'"', b"\0\0\0\0\2" + b'"x"', b"", b"{"]
    assert decode_all(coded(registry, contents)) == [(1, '"x"', 3), None, None, None, None]
    monkeypatch.setattr("pipeline_broker.schema_registry.decoding.CONTENTS_BYTES_MAX", 20)
    assert decode_all(coded(registry, [head + b'"x"'] * 4)) == [(1, '"x"', 3)] * 2 + [None] * 2
    monkeypatch.setattr("pipeline_broker.schema_registry.decoding.SCHEMAS_CHARACTERS_MAX", 5)
    assert decode_all(coded(registry, [head + b'"x"'])) == [None]
    monkeypatch.undo()
    monkeypatch.setattr("pipeline_broker.schema_registry.decoding.DECODING_SECONDS_MAX", -1.0)
    assert decode_all(coded(registry, [head + b'"x"'])) == [None]


def test_a_schema_that_cannot_be_read_costs_its_time_once(registry, monkeypatch):
    registry.apply(version_of("a", 1, 1, '{"type":"nothing"}', kind=SchemaType.JSON))
    looks = []
    monkeypatch.setattr("pipeline_broker.schema_registry.decoding.parsed", lambda _: looks.append(1) or _refuse())
    assert decode_all(coded(registry, [b"\0\0\0\0\1x"] * 50)) == [None] * 50
    assert looks == [1]


def _refuse():
    raise RegistryError(42201, "no schema")


def test_metadata_and_settings_that_are_no_json_are_refused_and_those_that_are_kept_are_served():
    desk = RegistryDesk()
    body = b'{"schema":"\\"int\\"","metadata":{"a":%s}}'
    for wrong in (b"Infinity", b"NaN", b"1e999", b'"\\ud800"', b"[" * 300 + b"]" * 300):
        assert code(desk.ask("POST", "/subjects/a/versions", body % wrong)) == 400
        assert code(desk.ask("PUT", "/config", b'{"defaultMetadata":%s}' % wrong)) == 400
    deep = b"[" * 150 + b"]" * 150
    assert desk.ask("POST", "/subjects/a/versions", body % deep)[0] == 200
    assert desk.ask("GET", "/subjects/a/versions/1")[1]["metadata"] == {"a": json.loads(deep)}
    assert desk.ask("PUT", "/config", b'{"defaultMetadata":{"a":%s},"normalize":true}' % deep)[0] == 200
    assert desk.ask("GET", "/config")[1] == {
        "compatibilityLevel": "BACKWARD",
        "defaultMetadata": {"a": json.loads(deep)},
        "normalize": True,
    }
