"""Protobuf: compatibility by Confluent's table, and source that is generated from a descriptor."""

import base64

import hypothesis.strategies as st
import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc
from hypothesis import given

from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.protobuf_compatibility import incompatibilities
from pipeline_broker.schema_registry.protobuf_known import KNOWN
from pipeline_broker.schema_registry.protobuf_schema import ProtobufFile, canonical, parse, serialized
from pipeline_broker.schema_registry.protobuf_text import text_of
from tests.tables import each_row

PROTO3 = 'syntax = "proto3"; '
LOST = descriptor_pb2.FileDescriptorProto(name="x", dependency=["none.proto"])
STATUS = "enum Status { ACTIVE = 0; INACTIVE = 1; }"
TWO = "message M { string a = 1; string b = 2; }"
ONEOF = "message M { oneof o { string a = 1; string b = 2; } }"

ROWS = [
    ("package", "package a; message M {}", "package b; message M {}", ["PACKAGE_CHANGED at #/"]),
    ("package added", "message M {}", "package b; message M {}", ["PACKAGE_CHANGED at #/"]),
    ("field added", "message M { string a = 1; }", TWO, []),
    ("field removed", TWO, "message M { string a = 1; }", []),
    ("field renamed", "message M { string a = 1; }", "message M { string b = 1; }", []),
    ("number changed", "message M { string a = 1; }", "message M { string a = 2; }", []),
    ("message added", "message M {}", "message M {} message N {}", []),
    ("message moved", "message M {} message N {}", "message N {} message M {}", []),
    ("message removed", "message M {} message N {}", "message M {}", ["MESSAGE_REMOVED at #/N"]),
    ("nested removed", "message M { message N {} }", "message M {}", ["MESSAGE_REMOVED at #/M/N"]),
    ("enum removed", "message M {} " + STATUS, "message M {}", []),
    ("enum constant renamed", STATUS, STATUS.replace("INACTIVE", "NOT_ACTIVE"), []),
    ("wider number", "message M { int32 a = 1; }", "message M { int64 a = 1; }", []),
    ("string to bytes", "message M { string a = 1; }", "message M { bytes a = 1; }", []),
    ("number to enum", "message M { int32 a = 1; } " + STATUS, "message M { Status a = 1; } " + STATUS, []),
    ("zigzag", "message M { int32 a = 1; }", "message M { sint32 a = 1; }", ["FIELD_SCALAR_KIND_CHANGED at #/M/1"]),
    ("fixed", "message M { fixed32 a = 1; }", "message M { fixed64 a = 1; }", ["FIELD_SCALAR_KIND_CHANGED at #/M/1"]),
    ("signed fixed", "message M { fixed32 a = 1; }", "message M { sfixed32 a = 1; }", []),
    ("float", "message M { float a = 1; }", "message M { double a = 1; }", ["FIELD_SCALAR_KIND_CHANGED at #/M/1"]),
    ("to text", "message M { int32 a = 1; }", "message M { string a = 1; }", ["FIELD_SCALAR_KIND_CHANGED at #/M/1"]),
    (
        "to a message",
        "message M { int32 a = 1; } message N {}",
        "message M { N a = 1; } message N {}",
        ["FIELD_KIND_CHANGED at #/M/1"],
    ),
    (
        "other message",
        "message M { N a = 1; } message N {} message O {}",
        "message M { O a = 1; } message N {} message O {}",
        ["FIELD_NAMED_TYPE_CHANGED at #/M/1"],
    ),
    ("qualified", "message M { N a = 1; message N {} }", "message M { .M.N a = 1; message N {} }", []),
    ("repeated message", "message M { N a = 1; message N {} }", "message M { repeated N a = 1; message N {} }", []),
    ("repeated text", "message M { string a = 1; }", "message M { repeated string a = 1; }", []),
    (
        "repeated number",
        "message M { int32 a = 1; }",
        "message M { repeated int32 a = 1; }",
        ["FIELD_NUMERIC_LABEL_CHANGED at #/M/1"],
    ),
    ("field to oneof", TWO, "message M { string a = 1; oneof o { string b = 2; int32 c = 3; } }", []),
    ("fields to oneof", TWO, ONEOF, ["MULTIPLE_FIELDS_MOVED_TO_ONEOF at #/M/o"]),
    (
        "field to existing oneof",
        "message M { string c = 3; oneof o { string a = 1; string b = 2; } }",
        "message M { oneof o { string a = 1; string b = 2; string c = 3; } }",
        ["FIELD_MOVED_TO_EXISTING_ONEOF at #/M/o"],
    ),
    ("oneof field added", ONEOF, "message M { oneof o { string a = 1; string b = 2; int32 c = 3; } }", []),
    ("oneof field removed", ONEOF, "message M { oneof o { string a = 1; } }", ["ONEOF_FIELD_REMOVED at #/M/o/2"]),
    ("oneof removed", ONEOF, TWO, []),
    ("oneof renamed", ONEOF, ONEOF.replace("oneof o", "oneof p"), []),
    (
        "oneof divided",
        ONEOF,
        "message M { oneof o { string a = 1; } oneof p { string b = 2; } }",
        ["ONEOF_FIELD_REMOVED at #/M/o/2"],
    ),
    (
        "field moved out of a oneof",
        ONEOF,
        "message M { string b = 2; oneof o { string a = 1; } }",
        ["ONEOF_FIELD_REMOVED at #/M/o/2"],
    ),
    ("all fields moved out of a oneof", ONEOF, TWO, []),
    (
        "oneofs joined",
        "message M { oneof o { string a = 1; } oneof p { string b = 2; } }",
        ONEOF,
        ["FIELD_MOVED_TO_EXISTING_ONEOF at #/M/o"],
    ),
    ("optional", "message M { string a = 1; }", "message M { optional string a = 1; }", []),
    (
        "map value",
        "message M { map<string, int32> a = 1; }",
        "message M { map<string, string> a = 1; }",
        ["FIELD_SCALAR_KIND_CHANGED at #/M/1"],
    ),
    (
        "map key",
        "message M { map<string, int32> a = 1; }",
        "message M { map<int32, int32> a = 1; }",
        ["FIELD_SCALAR_KIND_CHANGED at #/M/1"],
    ),
    (
        "nested message of another message",
        "message M { A.N a = 1; } message A { message N {} } message B { message N {} }",
        "message M { B.N a = 1; } message A { message N {} } message B { message N {} }",
        ["FIELD_NAMED_TYPE_CHANGED at #/M/1"],
    ),
    ("map value wider", "message M { map<string, int32> a = 1; }", "message M { map<string, int64> a = 1; }", []),
    (
        "map to text",
        "message M { map<string, int32> a = 1; }",
        "message M { string a = 1; }",
        ["FIELD_KIND_CHANGED at #/M/1"],
    ),
]
ROWS_2 = [
    ("required added", "message M {}", "message M { required string a = 1; }", ["REQUIRED_FIELD_ADDED at #/M/1"]),
    ("required removed", "message M { required string a = 1; }", "message M {}", ["REQUIRED_FIELD_REMOVED at #/M/1"]),
    (
        "becomes required",
        "message M { optional string a = 1; }",
        "message M { required string a = 1; }",
        ["REQUIRED_FIELD_ADDED at #/M/1"],
    ),
    (
        "group to message",
        "message M { optional group G = 1 {} }",
        "message M { optional G g = 1; message G {} }",
        ["FIELD_KIND_CHANGED at #/M/1"],
    ),
    ("becomes optional", "message M { required string a = 1; }", "message M { optional string a = 1; }", []),
]
TABLE = [
    pytest.param(f"{head}{original}", f"{head}{update}", expected, id=f"{name}")
    for rows, head in ((ROWS, PROTO3), (ROWS_2, 'syntax = "proto2"; '))
    for name, original, update, expected in rows
]


def compiled(source, folder):
    """Compile a source in this process; a process for each row would take a minute."""
    (folder / "schema.proto").write_text(source, encoding="utf-8")
    assert protoc.main(["", f"-I{folder}", f"--descriptor_set_out={folder / 'out'}", str(folder / "schema.proto")]) == 0
    (file,) = descriptor_pb2.FileDescriptorSet.FromString((folder / "out").read_bytes()).file
    return ProtobufFile(file, {})


@each_row("original, update, expected", TABLE)
def test_the_table_of_the_documentation(tmp_path, original, update, expected):
    assert list(incompatibilities(compiled(update, tmp_path), compiled(original, tmp_path))) == expected


def test_an_imported_message_is_compared_by_its_content():
    uses = PROTO3 + 'import "other.proto"; message M { p.Other other = 1; }'
    number, text = (PROTO3 + f"package p; message Other {{ {kind} a = 1; }}" for kind in ("int32", "string"))
    before, same, after = (parse(uses, {"other.proto": other}) for other in (number, number, text))

    assert incompatibilities(same, before) == []
    assert list(incompatibilities(after, before)) == [
        "FIELD_SCALAR_KIND_CHANGED at #/Other/1",
        "FIELD_NAMED_TYPE_CHANGED at #/M/1",
    ]


def test_a_message_that_was_moved_into_an_import_is_compared_by_its_content():
    here = PROTO3 + "message M { Other other = 1; } message Other { int32 a = 1; }"
    uses = PROTO3 + 'import "other.proto"; message M { Other other = 1; }'
    number, text = (PROTO3 + f"message Other {{ {kind} a = 1; }}" for kind in ("int32", "string"))
    before, same, other = parse(here, {}), parse(uses, {"other.proto": number}), parse(uses, {"other.proto": text})
    moved = ["MESSAGE_REMOVED at #/Other"]
    narrowed = ["FIELD_SCALAR_KIND_CHANGED at #/Other/1", "FIELD_NAMED_TYPE_CHANGED at #/M/1"]

    assert list(incompatibilities(same, before)) == moved
    assert list(incompatibilities(other, before)) == narrowed + moved
    assert incompatibilities(before, same) == []
    assert list(incompatibilities(before, other)) == narrowed


def test_a_well_known_message_equals_itself_only():
    imports = 'import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto"; '
    time, span = (
        parse(f"{PROTO3}{imports}message M {{ google.protobuf.{name} a = 1; }}", {})
        for name in ("Timestamp", "Duration")
    )
    assert incompatibilities(time, time) == []
    assert list(incompatibilities(span, time)) == ["FIELD_NAMED_TYPE_CHANGED at #/M/1"]


@each_row(
    "text, dependencies, said",
    [
        (PROTO3 + "message M { foo a = 1; }", {}, '"foo" is not defined'),
        (PROTO3 + 'import "a.proto";', {"../a.proto": PROTO3}, "cannot be imported"),
        (PROTO3 + 'import "a.proto";', {"/etc/a.proto": PROTO3}, "cannot be imported"),
        (PROTO3 + 'import "a.py";', {"grpc_tools/protoc.py": "print(1)"}, "cannot be imported"),
        (PROTO3 + 'import "../../etc/passwd";', {}, "passwd"),
        (base64.b64encode(LOST.SerializeToString()).decode(), {}, "none.proto"),
    ],
    ids=["type", "above", "absolute", "program", "import above", "descriptor"],
)  # fmt: skip
def test_an_error_names_the_fault(text, dependencies, said):
    with pytest.raises(RegistryError, match=said):
        parse(text, dependencies)


@pytest.mark.parametrize("depth", [10, 101, 115, 400])
def test_messages_of_the_compiler_show_no_path_and_no_line_of_its_log(depth):
    """At some of these depths the text is cut off where the path of its folder begins."""
    for padding in range(0, 80, 7):
        with pytest.raises(RegistryError) as caught:
            parse("message A" + "\x80" * padding + " { message A {" * depth, {})
        assert "protoc" not in str(caught.value)
        assert "parser.cc" not in str(caught.value)


KINDS = [
    it
    for it in descriptor_pb2.FieldDescriptorProto.Type.values()
    if it not in (10, 11, 14)  # group, message, enum
]


@st.composite
def messages(draw, name, depth=2):
    """Draw a message as the compiler would describe it."""
    message = descriptor_pb2.DescriptorProto(name=name)
    oneofs = draw(st.integers(0, 1))
    for number in range(1, draw(st.integers(1, 5))):
        field = message.field.add(name=f"f_{number}", number=number, label=draw(st.sampled_from([1, 3])))
        field.json_name = draw(st.sampled_from([f"f{number}", "other"])) if number == 1 else f"f{number}"
        field.type = draw(st.sampled_from(KINDS))
        match draw(st.sampled_from(["plain", "optional", "map", "nested", "deprecated"])):
            case "optional" if field.label == 1:
                field.proto3_optional = True
            case "map":
                entry = message.nested_type.add(name=f"F{number}Entry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, label=1, type=9, json_name="key")
                entry.field.add(name="value", number=2, label=1, type=field.type, json_name="value")
                field.label, field.type, field.type_name = 3, 11, f".p.{name}.{entry.name}"
            case "nested" if depth:
                inner = draw(messages(f"{name}_{number}", 0))
                if not inner.nested_type:
                    message.nested_type.append(inner)
                    field.type, field.type_name = 11, f".p.{name}.{inner.name}"
            case "deprecated":
                field.options.deprecated = True
    if oneofs:
        message.oneof_decl.add(name="choice")
        for number in (100, 101):
            message.field.add(name=f"o{number}", number=number, label=1, type=9, oneof_index=0, json_name=f"o{number}")
    optional = [field for field in message.field if field.proto3_optional]
    for field in optional:  # each has its own oneof, after the declared ones
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")
    if draw(st.booleans()):
        message.reserved_range.add(start=50, end=draw(st.sampled_from([51, 60])))
        message.reserved_name.append("gone")
    return message


@st.composite
def files(draw):
    file = descriptor_pb2.FileDescriptorProto(name="schema.proto", package="p", syntax="proto3")
    file.message_type.append(draw(messages("M")))
    if draw(st.booleans()):
        file.enum_type.add(name="E").value.add(name="ZERO", number=0)
        file.options.java_package = draw(st.sampled_from(["a.b", 'a"b\\c', "é\n"]))
    return file


@given(file=files())
def test_the_source_that_is_made_of_a_descriptor_is_compiled_to_it(file, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    assert compiled(text_of(file), folder).root == file


@given(files())
def test_a_descriptor_in_base64_is_read_without_the_compiler(file):
    given_text = base64.b64encode(file.SerializeToString()).decode()
    parsed = parse(given_text, {})
    assert parsed.root == file
    assert serialized(parsed) == given_text
    assert canonical(given_text, parsed, is_normalized=False) == text_of(file)


def test_source_of_the_second_syntax_is_made_too():
    source = """syntax = "proto2";
message M {
  required string a = 1 [default = "a\\"b\\n"];
  optional bytes b = 2 [default = "\\001\\377"];
  optional group G = 3 { optional int32 q = 1; }
  extensions 100 to 199, 500 to max;
  optional float f = 5 [default = inf];
  oneof o { int32 i = 7; group H = 8 {} }
}
extend M { repeated string s = 101; }
enum E { option allow_alias = true; A = 0; B = 0; reserved 5 to max; }
service S { rpc Call (stream M) returns (stream M) { option deprecated = true; } }
"""
    root = parse(source, {}).root
    assert parse(text_of(root), {}).root == root


def test_fields_of_a_oneof_that_are_not_adjacent_are_refused():
    file = descriptor_pb2.FileDescriptorProto(name="x", syntax="proto3")
    message = file.message_type.add(name="M")
    message.oneof_decl.add(name="o")
    for number, index in ((1, 0), (2, None), (3, 0)):
        message.field.add(name=f"f{number}", number=number, label=1, type=9, oneof_index=index)
    text = base64.b64encode(file.SerializeToString()).decode()
    with pytest.raises(RegistryError, match="are not adjacent"):
        canonical(text, parse(text, {}), is_normalized=False)


WITH_A_MESSAGE = [name for name, file in KNOWN.items() if file.message_type]


@each_row("name", WITH_A_MESSAGE, ids=WITH_A_MESSAGE, parts=2)
def test_known_files_are_imported_without_a_reference(name):
    message = f"{KNOWN[name].package}.{KNOWN[name].message_type[0].name}"
    parsed = parse(f'{PROTO3}import "{name}"; message M {{ {message} it = 1; }}', {})
    assert parsed.pool().FindMessageTypeByName("M").fields[0].message_type.full_name == message
    assert parse(serialized(parsed), {}).root == parsed.root


def test_tags_of_fields_may_be_given_and_the_schema_is_kept_as_it_was_written():
    text = f'{PROTO3}import "confluent/meta.proto"; message M {{ string a = 1 [(confluent.field_meta).tags = "PII"]; }}'
    assert canonical(text, parse(text, {}), is_normalized=False) == text


def test_a_reference_takes_precedence_over_a_known_file():
    own = f"{PROTO3}package google.type; message Date {{ string text = 1; }}"
    text = f'{PROTO3}import "google/type/date.proto"; message M {{ google.type.Date date = 1; }}'
    parsed = parse(text, {"google/type/date.proto": own})
    assert parsed.pool().FindMessageTypeByName("google.type.Date").fields[0].name == "text"


def test_the_types_of_confluent_are_those_that_its_serializers_have():
    from confluent_kafka.schema_registry.confluent import meta_pb2
    from confluent_kafka.schema_registry.confluent.type import decimal_pb2, variant_pb2
    from confluent_kafka.schema_registry.confluent.types import decimal_pb2 as earlier_decimal_pb2

    for module in (meta_pb2, decimal_pb2, variant_pb2, earlier_decimal_pb2):
        theirs = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        theirs.ClearField("options")  # of other languages
        assert KNOWN[theirs.name] == theirs
