"""The REST API answers like the examples of Confluent's API reference."""

import base64
import json

import pytest

from pipeline_broker.schema_registry import state
from pipeline_broker.schema_registry.api import TABLE
from pipeline_broker.schema_registry.values import Level, Mode
from tests.schema_registry.registry_desk import (
    FIRST,
    REFERENCED,
    USER,
    WITH_DEFAULT,
    WITHOUT_DEFAULT,
    RegistryDesk,
    code,
)
from tests.tables import each_row


@pytest.fixture
def desk():
    return RegistryDesk()


def test_a_schema_gets_an_id_and_is_found_by_it(desk):
    assert desk.ask("POST", "/subjects/test/versions", {"schema": '{"type": "string"}'}) == (200, {"id": 1})
    assert desk.ask("GET", "/schemas/ids/1") == (200, {"schema": '{"type":"string"}'})
    assert desk.ask_text("GET", "/schemas/ids/1/schema") == (200, '{"type":"string"}')
    assert desk.ask("GET", "/schemas/ids/1/subjects") == (200, ["test"])
    assert desk.ask("GET", "/schemas/ids/1/versions") == (200, [{"subject": "test", "version": 1}])
    assert desk.ask("GET", "/schemas/ids/1?fetchMaxId=true")[1]["maxId"] == 1


def test_the_types_of_schemas_are_listed(desk):
    assert desk.ask("GET", "/schemas/types") == (200, ["JSON", "PROTOBUF", "AVRO"])


def test_the_same_schema_has_one_id_in_all_subjects_and_one_version_in_each(desk):
    assert [desk.register(subject, text) for subject in "aba" for text in (FIRST, FIRST.replace(":", " : "))] == [1] * 6
    assert desk.register("a", WITH_DEFAULT) == 2
    assert desk.ask("GET", "/subjects/a/versions") == (200, [1, 2])
    assert desk.ask("GET", "/subjects/b/versions") == (200, [1])


def test_a_schema_that_is_registered_during_its_comparison_gets_no_second_version():
    """Another registry may write to the topic at any time. The answer then names the version that it made."""
    for pieces in range(2):
        desk, left = RegistryDesk(), iter(range(pieces, -1, -1))

        def after_work(desk=desk, left=left):
            if next(left, None) == 0:
                desk.after_work = lambda: None
                desk.register("a", FIRST)

        desk.after_work = after_work
        assert desk.register("a", FIRST) == 1
        assert next(left, None) is None, "it was registered during the work"
        assert desk.ask("GET", "/subjects/a/versions") == (200, [1]), f"after {pieces} pieces of work"


def test_a_version_of_a_subject_is_shown_with_its_id(desk):
    desk.register("a/b c", FIRST)
    expected = {"subject": "a/b c", "version": 1, "id": 1, "schema": FIRST}

    for version in ("1", "latest", "-1"):
        assert desk.ask("GET", f"/subjects/a%2Fb%20c/versions/{version}") == (200, expected)
    assert desk.ask_text("GET", "/subjects/a%2Fb%20c/versions/1/schema") == (200, FIRST)


def test_a_schema_is_looked_up_in_a_subject(desk):
    desk.register("test", FIRST)

    assert desk.ask("POST", "/subjects/test", {"schema": FIRST}) == (
        200,
        {"subject": "test", "version": 1, "id": 1, "schema": FIRST},
    )
    assert code(desk.ask("POST", "/subjects/test", {"schema": '"int"'})) == 40403
    assert code(desk.ask("POST", "/subjects/none", {"schema": FIRST})) == 40401


def test_a_version_that_is_wanted_is_the_next_one_or_refused(desk):
    assert code(desk.register("a", FIRST, version=2)) == 42201
    assert desk.register("a", FIRST, version=1) == 1
    assert code(desk.register("a", WITH_DEFAULT, version=1)) == 42201
    assert desk.register("a", WITH_DEFAULT, version=-1) == 2
    assert desk.ask("GET", "/subjects/a/versions") == (200, [1, 2])


def test_subjects_are_listed_by_prefix_and_in_pages(desk):
    for subject in ("ab", "aa", "b"):
        desk.register(subject, FIRST)

    assert desk.ask("GET", "/subjects?subjectPrefix=a") == (200, ["aa", "ab"])
    assert desk.ask("GET", "/subjects?offset=1&limit=1") == (200, ["ab"])
    assert [found["subject"] for found in desk.ask("GET", "/schemas?subjectPrefix=b")[1]] == ["b"]


def test_a_referenced_schema_is_listed_and_cannot_be_deleted(desk):
    reference = {"name": "com.acme.Referenced", "subject": "child", "version": 1}
    assert code(desk.register("parent", USER, references=[reference])) == 42201
    desk.register("child", REFERENCED)
    parent_id = desk.register("parent", USER, references=[reference])

    assert desk.ask("GET", "/subjects/child/versions/1/referencedby") == (200, [parent_id])
    assert desk.ask("GET", f"/schemas/ids/{parent_id}")[1]["references"] == [reference]
    assert code(desk.ask("DELETE", "/subjects/child/versions/1")) == 42206
    assert code(desk.ask("DELETE", "/subjects/child")) == 42206
    assert code(desk.register("parent", USER)) == 42201, "invalid without the reference"


def test_references_of_json_schema_and_protobuf_are_read(desk):
    desk.register("address", '{"type":"object","properties":{"street":{"type":"string"}}}', "JSON")
    by_url = {"name": "address.json", "subject": "address", "version": 1}
    person = '{"type":"object","properties":{"home":{"$ref":"address.json#/properties/street"}}}'
    assert desk.register("person", person, "JSON", references=[by_url]) == 2
    assert code(desk.register("person", person.replace("/street", "/none"), "JSON", references=[by_url])) == 42201
    other = 'syntax = "proto3"; package a; message Other { int32 id = 1; }'
    assert desk.register("other", other, "PROTOBUF") == 3
    by_file = {"name": "a/other.proto", "subject": "other", "version": 1}
    uses = 'syntax = "proto3"; import "a/other.proto"; message Uses { a.Other other = 1; }'
    assert desk.register("uses", uses, "PROTOBUF", references=[by_file]) == 4
    assert "is not defined" in desk.register("uses", uses.replace('import "a/other.proto";', ""), "PROTOBUF")["message"]


@each_row(
    "kind, text",
    [
        ("AVRO", "{"),
        ("AVRO", '"nothing"'),
        ("AVRO", '{"type":"record","name":"R"}'),
        ("AVRO", '{"type":"enum","name":"E","symbols":5}'),
        ("AVRO", "[" * 10_000),
        ("JSON", '{"type":"nothing"}'),
        ("JSON", '{"$ref":"#/definitions/none"}'),
        ("JSON", '{"properties":{"default":{"$ref":"#/definitions/none"}}}'),
        ("JSON", '{"minimum":"1"}'),
        ("JSON", "[]"),
        ("PROTOBUF", "message {"),
        ("PROTOBUF", 'syntax = "proto3"; import "other.proto"; message M {}'),
        ("PROTOBUF", 'syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }'),
        ("NONE", '"string"'),
        ("AVRO", " "),
    ],
    ids=[
        "half", "unknown name", "no fields", "no symbols", "deep", "no type", "no target",
        "no target in a property", "no number", "list",
        "half message", "no import", "twice", "no kind", "empty",
    ],
)  # fmt: skip
def test_an_invalid_schema_is_refused(kind, text):
    assert code(RegistryDesk().register("a", text, kind)) == 42201


def test_a_schema_that_does_not_go_together_with_the_latest_is_a_conflict(desk):
    desk.register("a", FIRST)
    status, answer = desk.ask("POST", "/subjects/a/versions", {"schema": WITHOUT_DEFAULT})

    assert (status, answer["error_code"]) == (409, 40901)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in answer["message"]
    assert "{oldSchemaVersion: 1}" in answer["message"]
    assert "{compatibility: 'BACKWARD'}" in answer["message"]


OPTIONAL = '{"type":"record","name":"R","fields":[]}'


@each_row(
    "level, accepted",
    [
        # added to FIRST or removed from it: b with and without a default, a
        ("NONE", {"with", "without", "less"}),
        ("BACKWARD", {"with", "less"}),
        ("FORWARD", {"with", "without"}),
        ("FULL", {"with"}),
        ("BACKWARD_TRANSITIVE", {"with", "less"}),
        ("FORWARD_TRANSITIVE", {"with", "without"}),
        ("FULL_TRANSITIVE", {"with"}),
    ],
    ids=[level.value for level in Level],
)
def test_each_level_accepts_the_changes_in_confluents_table(level, accepted):
    changed = {"with": WITH_DEFAULT, "without": WITHOUT_DEFAULT, "less": OPTIONAL}
    desk = RegistryDesk()
    desk.register("a", FIRST)
    desk.ask("PUT", "/config/a", {"compatibility": level})

    told = {
        name
        for name, text in changed.items()
        if desk.ask("POST", "/compatibility/subjects/a/versions/latest", {"schema": text})[1]["is_compatible"]
    }
    registered = set()
    for name, text in changed.items():
        other = RegistryDesk()
        other.register("a", FIRST)
        other.ask("PUT", "/config", {"compatibility": level})
        if isinstance(other.register("a", text), int):
            registered.add(name)
    assert (told, registered) == (accepted, accepted)


def test_a_transitive_level_looks_at_all_versions_the_others_at_the_latest(desk):
    desk.register("a", '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}')
    desk.register("a", '{"type":"record","name":"R","fields":[]}')
    third = '{"type":"record","name":"R","fields":[{"name":"a","type":"string","default":""}]}'

    assert desk.ask("POST", "/compatibility/subjects/a/versions", {"schema": third}) == (200, {"is_compatible": True})
    desk.ask("PUT", "/config", {"compatibility": "BACKWARD_TRANSITIVE"})
    answer = desk.ask("POST", "/compatibility/subjects/a/versions?verbose=true", {"schema": third})[1]
    assert answer["is_compatible"] is False
    assert "TYPE_MISMATCH" in answer["messages"][0]
    assert "{oldSchemaVersion: 1}" in answer["messages"]
    assert code(desk.register("a", third)) == 40901


def test_compatibility_with_a_subject_that_has_no_version_is_given_and_with_a_missing_one_not_found(desk):
    body = {"schema": FIRST}
    assert desk.ask("POST", "/compatibility/subjects/a/versions/latest?verbose=true", body) == (
        200,
        {"is_compatible": True, "messages": []},
    )
    assert code(desk.ask("POST", "/compatibility/subjects/a/versions/1", body)) == 40401
    desk.register("a", FIRST)
    assert code(desk.ask("POST", "/compatibility/subjects/a/versions/7", body)) == 40402


def test_a_type_that_changes_is_incompatible(desk):
    desk.register("a", '"string"')
    assert "the type of the schema changed" in desk.register("a", '{"type":"string"}', "JSON")["message"]


def test_configurations_of_all_and_of_a_subject(desk):
    assert desk.ask("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert desk.ask("PUT", "/config", {"compatibility": "full"}) == (200, {"compatibility": "full"})
    assert desk.ask("GET", "/config") == (200, {"compatibilityLevel": "FULL"})
    assert code(desk.ask("GET", "/config/a")) == 40408
    assert desk.ask("GET", "/config/a?defaultToGlobal=true") == (200, {"compatibilityLevel": "FULL"})
    assert desk.ask("PUT", "/config/a", {"compatibility": "NONE"})[0] == 200
    assert desk.ask("GET", "/config/a") == (200, {"compatibilityLevel": "NONE"})
    assert desk.ask("DELETE", "/config/a") == (200, {"compatibilityLevel": "NONE"})
    assert code(desk.ask("DELETE", "/config/a")) == 40401
    assert code(desk.ask("PUT", "/config", {"compatibility": "SOME"})) == 42203
    assert desk.ask("DELETE", "/config")[0] == 200
    assert desk.ask("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})


def test_modes_of_all_and_of_a_subject(desk):
    assert desk.ask("GET", "/mode") == (200, {"mode": "READWRITE"})
    assert code(desk.ask("GET", "/mode/a")) == 40409
    assert desk.ask("PUT", "/mode/a", {"mode": "readonly"}) == (200, {"mode": "READONLY"})
    assert desk.ask("GET", "/mode/a") == (200, {"mode": "READONLY"})
    assert code(desk.register("a", FIRST)) == 42205
    assert code(desk.ask("DELETE", "/subjects/a")) == 42205
    assert desk.register("b", FIRST) == 1
    assert desk.ask("DELETE", "/mode/a") == (200, {"mode": "READONLY"})
    assert desk.register("a", FIRST) == 1
    assert code(desk.ask("DELETE", "/mode/a")) == 40401
    assert code(desk.ask("PUT", "/mode", {"mode": "OTHER"})) == 42204
    desk.ask("PUT", "/mode/a", {"mode": "READWRITE"})
    desk.ask("PUT", "/mode", {"mode": Mode.READONLY_OVERRIDE})
    assert code(desk.register("a", '"int"')) == 42205, "it goes over the mode of the subject"


def test_a_schema_is_imported_with_the_id_that_it_had(desk):
    desk.register("other", '"int"')
    assert code(desk.ask("PUT", "/mode", {"mode": "IMPORT"})) == 42205, "there are subjects"
    desk.ask("PUT", "/mode/a", {"mode": "IMPORT"})

    assert code(desk.register("a", FIRST)) == 42205, "without an id"
    assert desk.register("a", FIRST, id=77, version=5) == 77
    assert desk.ask("GET", "/subjects/a/versions") == (200, [5])
    assert code(desk.register("a", WITHOUT_DEFAULT, id=77)) == 42207
    assert code(desk.register("b", FIRST, id=78)) == 42205, "in another mode an id is not chosen"
    assert desk.register("b", WITH_DEFAULT) == 78, "ids continue after imported ones"


def test_a_normalized_schema_is_the_same_whatever_the_order_of_its_attributes(desk):
    turned = '{"fields":[{"type":{"type":"int"},"name":"a"}],"name":"R","type":"record"}'
    first = desk.ask("POST", "/subjects/a/versions?normalize=true", {"schema": FIRST})[1]["id"]

    assert desk.ask("POST", "/subjects/a/versions?normalize=true", {"schema": turned})[1]["id"] == first
    assert desk.ask("POST", "/subjects/a?normalize=true", {"schema": turned})[0] == 200
    assert desk.ask("POST", "/subjects/a", {"schema": turned})[0] == 200
    desk.ask("PUT", "/config/a", {"normalize": True})
    assert desk.ask("POST", "/subjects/a", {"schema": turned})[0] == 200
    assert desk.ask("GET", "/subjects/a/versions")[1] == [1]


def test_metadata_and_rules_are_kept_and_make_another_schema(desk):
    metadata, rules = {"properties": {"owner": "me"}}, {"domainRules": [{"name": "r"}]}
    assert desk.register("a", FIRST) == 1
    assert desk.register("a", FIRST, metadata=metadata, ruleSet=rules) == 2
    answer = desk.ask("GET", "/subjects/a/versions/2")[1]
    assert (answer["metadata"], answer["ruleSet"]) == (metadata, rules)


@each_row(
    "method, target, body, expected",
    [
        ("GET", "/nothing", None, 404),
        ("PUT", "/subjects", None, 405),
        ("GET", "/schemas/ids/x", None, 40403),
        ("GET", "/schemas/ids/5", None, 40403),
        ("GET", "/subjects/a/versions/0", None, 42202),
        ("GET", "/subjects/a/versions/2147483648", None, 42202),
        ("GET", "/subjects/a/versions/first", None, 42202),
        ("POST", "/subjects/a/versions", b"{", 400),
        ("POST", "/subjects/a/versions", b"[]", 422),
        ("POST", "/subjects/a/versions", b'{"schema":"\\ud800"}', 400),
        ("POST", "/subjects/%00/versions", b'{"schema":"\\"int\\""}', 42208),
        ("POST", "/subjects/a/versions", b'{"schema":"\\"int\\"","references":[{"name":"x"}]}', 42201),
        ("POST", "/subjects/a/versions", b'{"schema":"\\"int\\"","id":"x"}', 422),
    ],
    ids=[
        "address", "method", "id", "no id", "zero", "large", "word", "half", "list", "surrogate", "subject",
        "reference", "id of a word",
    ],
)  # fmt: skip
def test_invalid_requests_are_refused_with_their_code(method, target, body, expected):
    status, answer = RegistryDesk().ask(method, target, body)

    assert answer["error_code"] == expected
    assert status == int(str(expected)[:3])
    assert answer["message"]


def test_versions_are_bounded(desk, monkeypatch):
    monkeypatch.setattr(state, "VERSIONS_MAX", 1)
    desk.register("a", FIRST)
    assert code(desk.register("a", WITH_DEFAULT)) == 42205
    assert desk.register("a", FIRST) == 1


@each_row("path, body", [("mode", {"mode": "READONLY"}), ("config", {"compatibility": "NONE"})], ids=["mode", "config"])
def test_subjects_with_settings_are_bounded_and_those_that_have_some_may_change_them(path, body):
    desk = RegistryDesk()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "SUBJECTS_WITH_SETTINGS_MAX", 1)
        assert desk.ask("PUT", f"/{path}/a", body)[0] == 200
        assert code(desk.ask("PUT", f"/{path}/b", body)) == 42205
        assert desk.ask("PUT", f"/{path}/a", body)[0] == 200


def test_a_schema_and_its_references_are_bounded(desk):
    desk.register("large", json.dumps({"type": "fixed", "name": "F", "size": 1, "doc": "x" * 900_000}))
    reference = {"name": "F", "subject": "large", "version": 1}
    assert (
        code(
            desk.register(
                "a", json.dumps({"type": "array", "items": "F", "doc": "x" * 200_000}), references=[reference]
            )
        )
        == 42209
    )


def test_protobuf_is_given_as_source_or_as_descriptor(desk):
    from google.protobuf.timestamp_pb2 import DESCRIPTOR

    descriptor = base64.b64encode(DESCRIPTOR.serialized_pb).decode()
    assert desk.register("a", descriptor, "PROTOBUF") == 1
    kept = desk.ask("GET", "/schemas/ids/1")[1]
    assert kept["schemaType"] == "PROTOBUF"
    assert "message Timestamp {\n  int64 seconds = 1;" in kept["schema"]
    assert desk.register("b", kept["schema"].strip(), "PROTOBUF") == 1
    assert desk.ask("GET", "/schemas/ids/1?format=serialized")[1]["schema"]


def test_the_root_and_the_contexts_answer(desk):
    assert desk.ask("GET", "/") == (200, {})
    assert desk.ask("GET", "/contexts") == (200, ["."])


def test_every_address_of_the_documentation_is_in_the_table():
    assert len(TABLE) == 20
