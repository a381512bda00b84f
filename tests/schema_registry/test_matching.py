"""A schema in other words is the same schema: in lookups, versions and ids, also if another registry registered it."""

import base64
import json

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from pipeline_broker.schema_registry import matching, schema_index
from pipeline_broker.schema_registry.protobuf_schema import parse, serialized
from pipeline_broker.schema_registry.records import read_change
from pipeline_broker.schema_registry.state import RegistryState
from tests.schema_registry.registry_desk import FIRST, REFERENCED, USER, WITH_DEFAULT, RegistryDesk, code
from tests.tables import each_row

ORDER = """syntax = "proto3";
package shop;

// an order
message Order {
  string id = 1; // unique
  int32 count = 2;
}
"""
WORDS = {
    "AVRO": [
        FIRST,
        '{"fields": [{"type": {"type": "int"}, "name": "a"}], "name": "R", "type": "record"}',
        FIRST.replace('"R"', '"R","namespace":""'),
    ],
    "JSON": [
        '{"type": "object", "properties": {"a": {"type": "number", "maximum": 100.0}, "b": {}}}',
        '{"properties":{"b":{},"a":{"maximum":1e2,"type":"number"}},"type":"object"}',
    ],
    "PROTOBUF": [
        ORDER,
        'syntax = "proto3"; package shop; message Order { string id = 1; int32 count = 2; }',
        'syntax = "proto3"; package shop; message Order { int32 count = 2; string id = 0x1; }',
        serialized(parse(ORDER, {})),
    ],
}
QUERIES = ["", "?normalize=true"]


@pytest.fixture
def desk():
    return RegistryDesk()


def restarted(desk):
    """Return a registry that has read the records of another one."""
    other = RegistryDesk()
    other.state = RegistryState()
    for record in desk.records:
        assert other.state.apply(read_change(*record))
    return other


@each_row("kind", list(WORDS), ids=list(WORDS))
def test_a_schema_in_other_words_is_found_and_has_one_id(kind):
    for first_query in QUERIES:
        desk = RegistryDesk()
        for at, text in enumerate(WORDS[kind]):
            body = {"schema": text, "schemaType": kind}
            for query in [first_query, *QUERIES]:
                assert desk.ask("POST", f"/subjects/a/versions{query}", body)[1]["id"] == 1, (text, query)
                for it in (desk, restarted(desk)):
                    assert it.ask("POST", f"/subjects/a{query}", body)[1]["version"] == 1, (text, query)
            assert desk.ask("POST", f"/subjects/b{at}/versions", body)[1] == {"id": 1}
            assert restarted(desk).register(f"c{at}", text, kind) == 1
        assert desk.ask("GET", "/subjects/a/versions") == (200, [1])


def test_another_order_of_references_is_the_same_schema(desk):
    for name in ("One", "Two"):
        desk.register(name, f'{{"type":"enum","name":"{name}","symbols":["X"]}}')
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"One"},{"name":"b","type":"Two"}]}'
    references = [{"name": name, "subject": name, "version": 1} for name in ("One", "Two")]
    assert desk.register("r", text, references=references) == 3
    assert desk.register("r", text, references=references[::-1]) == 3


def test_a_schema_that_has_all_it_needs_within_is_the_one_that_refers_to_it(desk):
    desk.register("other", REFERENCED)
    references = [{"name": "com.acme.Referenced", "subject": "other", "version": 1}]
    assert desk.register("user", USER, references=references) == 2
    whole = USER.replace('"com.acme.Referenced"', REFERENCED)
    assert desk.ask("POST", "/subjects/user", {"schema": whole})[1]["version"] == 1
    assert desk.register("user", whole) == 2
    assert code(desk.ask("POST", "/subjects/user", {"schema": whole.replace("field2", "field3")})) == 40403


def test_references_to_other_versions_make_another_protobuf_schema(desk):
    head = 'syntax = "proto3"; '
    for field in ("int32 a = 1;", "int32 a = 1; int32 b = 2;"):
        desk.register("other", f"{head}message O {{ {field} }}", "PROTOBUF")
    text = f'{head}import "o.proto"; message M {{ O o = 1; }}'
    ids = [
        desk.register("m", text, "PROTOBUF", references=[{"name": "o.proto", "subject": "other", "version": number}])
        for number in (1, 2, 1)
    ]
    assert ids == [3, 4, 3]


def test_texts_that_cannot_be_read_are_the_same_as_themselves_alone(desk):
    for at, text in enumerate(["no schema {", 'syntax = "proto3"; message M {', '{"type":"record"}']):
        for kind in WORDS:
            value = {"subject": f"s{at}{kind}", "version": 1, "id": at * 3 + list(WORDS).index(kind) + 1}
            value |= {"schema": text, "schemaType": kind}
            key = {"keytype": "SCHEMA", "subject": value["subject"], "version": 1, "magic": 1}
            assert desk.state.apply(read_change(json.dumps(key).encode(), json.dumps(value).encode()))
    for kind, texts in WORDS.items():
        assert desk.register("new", texts[0], kind) > 9
        desk.ask("DELETE", "/subjects/new")
        desk.ask("DELETE", "/subjects/new?permanent=true")


def test_schemas_are_sketched_once_and_in_pieces(desk, monkeypatch):
    monkeypatch.setattr(matching, "SKETCHED_AT_ONCE_MAX", 3)
    for number in range(8):
        desk.register(f"s{number}", FIRST.replace('"R"', f'"R{number}"'))
    other, works = restarted(desk), []
    other.after_work = lambda: works.append(1)
    other.register("t", WITH_DEFAULT)
    first, works[:] = len(works), []
    other.register("u", WITH_DEFAULT.replace('"R"', '"Q"'))
    assert first == len(works) + 3, "8 schemas in pieces of 3"


def test_a_schema_that_is_registered_during_the_work_needs_no_further_work():
    desk = RegistryDesk()
    desk.register("a", FIRST)
    works = []
    desk.after_work = lambda: works.append(1)
    desk.register("b", WITH_DEFAULT)
    before = len(works)
    desk.register("c", WITH_DEFAULT)
    assert len(works) == 2 * before, "the sketch of the new version is known"


def test_sketches_of_schemas_that_are_never_registered_are_dropped(desk):
    for number in range(schema_index.EXPECTED_MAX + 10):
        desk.state.schemas.expect(desk.state.schema(desk.register("a", f'{{"type":"int","n":{number}}}')), "x")
    assert len(desk.state.schemas._expected) <= schema_index.EXPECTED_MAX


def test_an_id_belongs_to_the_schema_with_which_another_registry_replaced_it(desk):
    assert desk.register("a", FIRST) == 1
    key = {"keytype": "SCHEMA", "subject": "a", "version": 1, "magic": 1}
    value = {"subject": "a", "version": 1, "id": 1, "schema": WITH_DEFAULT}
    assert desk.state.apply(read_change(json.dumps(key).encode(), json.dumps(value).encode()))
    assert code(desk.ask("POST", "/subjects/a", {"schema": FIRST})) == 40403
    assert desk.ask("POST", "/subjects/a", {"schema": WITH_DEFAULT})[1]["id"] == 1


def test_an_imported_schema_may_have_its_id_in_other_words_and_no_other_schema_may(desk):
    desk.ask("PUT", "/mode/a", {"mode": "IMPORT"})
    bodies = [{"schema": text, "id": 7, "version": at} for at, text in enumerate(WORDS["AVRO"], 1)]
    assert [desk.ask("POST", "/subjects/a/versions", body)[0] for body in bodies] == [200] * 3
    assert code(desk.ask("POST", "/subjects/a/versions", {"schema": WITH_DEFAULT, "id": 7, "version": 9})) == 42207


def test_protobuf_schemas_with_the_same_names_and_numbers_may_be_others(desk):
    assert desk.register("a", ORDER, "PROTOBUF") == 1
    assert desk.register("a", ORDER.replace("int32", "int64"), "PROTOBUF") == 2
    assert desk.register("b", ORDER.replace("int32", "int64"), "PROTOBUF") == 2
    assert restarted(desk).register("c", ORDER.replace("int32", "uint32"), "PROTOBUF") == 3


def test_a_descriptor_whose_source_would_be_another_schema_is_refused(desk):
    file = FileDescriptorProto(name="x.proto", syntax="proto3")
    message = file.message_type.add(name="M")
    entry = message.nested_type.add(name="Odd")  # the compiler names an entry differently
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=9, json_name="key")
    entry.field.add(name="value", number=2, label=1, type=5, json_name="value")
    message.field.add(name="m", number=1, label=3, type=11, type_name=".M.Odd", json_name="m")
    answer = desk.register("a", base64.b64encode(file.SerializeToString()).decode(), "PROTOBUF")
    assert (code(answer), "is another schema" in answer["message"]) == (42201, True)


def test_a_descriptor_that_no_source_has_is_refused(desk):
    file = FileDescriptorProto(name="x.proto", syntax="proto2")
    extended = file.message_type.add(name="M")
    extended.extension_range.add(start=100, end=200)
    file.message_type.add(name="G")
    file.extension.add(name="g", number=100, label=1, type=10, type_name=".G", extendee=".M", json_name="g")
    text = base64.b64encode(file.SerializeToString()).decode()
    assert code(desk.register("a", text, "PROTOBUF")) == 42201
