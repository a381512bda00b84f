"""Protobuf: generated source is the same schema, with editions and options; and the equality of schemas."""

import base64

import hypothesis.strategies as st
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings

from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.protobuf_schema import canonical, identity, parse, serialized, sketch
from tests.drawn import drawn, measured
from tests.tables import each_row

SCALARS = st.sampled_from(["int32", "string", "bytes", "double", "bool", "sint64", "fixed32"])
OPTIONS = """syntax = "proto2";
package q;
import "google/protobuf/descriptor.proto";
message Rule {
  optional string text = 1;
  repeated int32 numbers = 2;
  optional Rule inner = 3;
  optional bytes data = 4;
  extensions 100 to 200;
}
enum Level { LOW = 0; HIGH = 5; }
extend Rule { optional double extended = 100; }
extend google.protobuf.FileOptions { optional string on_file = 50000; }
extend google.protobuf.MessageOptions { repeated Level on_message = 50000; }
extend google.protobuf.FieldOptions {
  optional int32 number = 50000;
  optional Rule rule = 50001;
  optional bytes raw = 50002;
  optional double real = 50003;
  optional bool yes = 50004;
  optional string of_source = 50005 [retention = RETENTION_SOURCE];
}
extend google.protobuf.EnumValueOptions { optional string on_value = 50000; }
extend google.protobuf.OneofOptions { optional string on_oneof = 50000; }
extend google.protobuf.ServiceOptions { optional string on_service = 50000; }
extend google.protobuf.MethodOptions { optional Rule on_method = 50000; }
"""
FILES = {"options.proto": OPTIONS}
TEXTS = st.text(st.sampled_from("ab \"\\'\n\té☃;={}[]/*"), max_size=5)


def quoted(text):
    return '"' + "".join(f"\\{byte:03o}" for byte in text.encode()) + '"'


@st.composite
def field_options(draw):
    """Return custom options of a field, as a compiler reads them."""
    found = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "(q.number)": st.integers(-(2**31), 2**31 - 1).map(str),
                "(q.raw)": TEXTS.map(quoted),
                "(q.real)": st.sampled_from(["1", "0.1", "-2.5e-10", "inf", "nan"]),
                "(q.yes)": st.sampled_from(["true", "false"]),
                "(q.rule)": st.tuples(TEXTS, st.lists(st.integers(-3, 3), max_size=2)).map(
                    lambda it: f"{{ text: {quoted(it[0])} numbers: {it[1]} inner {{ [q.extended]: 1.5 data: 'x' }} }}"
                ),
                "deprecated": st.sampled_from(["true", "false"]),
            },
        )
    )
    return [f"{name} = {value}" for name, value in found.items()]


PRESENCE = ["EXPLICIT", "IMPLICIT", "LEGACY_REQUIRED"]


@st.composite
def sources(draw):
    """Draw a source of any syntax, with options and features."""
    syntax = draw(st.sampled_from(["proto2", "proto3", "2023", "2024"]))
    is_edition = syntax.isdigit()
    lines = [f'edition = "{syntax}";' if is_edition else f'syntax = "{syntax}";', "package p;"]
    lines += ['import "options.proto";', f"option (q.on_file) = {quoted(draw(TEXTS))};"]
    if is_edition and draw(st.booleans()):
        lines.append(f"option features.field_presence = {draw(st.sampled_from(PRESENCE[:2]))};")
    lines += ["message M {", f"  option (q.on_message) = {draw(st.sampled_from(['LOW', 'HIGH']))};"]
    for number in range(1, draw(st.integers(1, 5))):
        options = draw(field_options())
        label = draw(st.sampled_from(["", "repeated "]))
        if not label and is_edition and draw(st.booleans()):
            options.append(f"features.field_presence = {draw(st.sampled_from(PRESENCE))}")
        if not label and syntax == "proto2":
            label = draw(st.sampled_from(["optional ", "required "]))
        brackets = f" [{', '.join(options)}]" if options else ""
        lines.append(f"  {label}{draw(SCALARS)} f{number} = {number}{brackets};")
    if draw(st.booleans()):
        group = " [features.message_encoding = DELIMITED]" if is_edition else ""
        label = "optional " if syntax == "proto2" else ""
        lines.append(f"  map<string, q.Rule> rules = 20; {label}q.Rule r = 21{group};")
        lines.append(f"  oneof choice {{ option (q.on_oneof) = {quoted(draw(TEXTS))}; string x = 22; int32 y = 23; }}")
        lines.append("  reserved gone;" if is_edition else '  reserved "gone";')
    lines.append(f"}} enum E {{ ZERO = 0 [(q.on_value) = {quoted(draw(TEXTS))}]; MINUS = -1; }}")
    lines.append("service S { option (q.on_service) = 's'; rpc Call (M) returns (stream M) {")
    lines.append("option (q.on_method) = { text: 'm' }; } }")
    return "\n".join(lines)


@measured(options=0.3, edition=0.2)
@settings(max_examples=40, deadline=None)
@given(sources())
def test_a_source_that_is_made_of_a_descriptor_is_the_same_schema_with_all_its_options(source):
    drawn("options", "(q.number)" in source or "(q.rule) =" in source)
    drawn("edition", source.startswith("edition"))
    parsed = parse(source, FILES)
    descriptor = parse(serialized(parsed), FILES)

    made = canonical(serialized(parsed), descriptor, is_normalized=False)
    assert parse(made, FILES).root == parsed.root
    for is_normalized in (False, True):
        text = canonical(source, parsed, is_normalized=is_normalized)
        again = parse(text, FILES)
        assert identity(again) == identity(parsed) == identity(descriptor)
        assert sketch(text) == sketch(source) == sketch(serialized(parsed))
        assert canonical(text, again, is_normalized=is_normalized) == text


HEAD = 'syntax = "proto3"; package p; import "options.proto"; '
FIELDS = "int32 a = 1; map<string, int32> m = 2; oneof o { string b = 3; string c = 4; }"
FIRST = f"{HEAD}message M {{ {FIELDS} }} enum E {{ Z = 0; Y = 1; }}"


@each_row(
    "text",
    [
        FIRST.replace("; ", ";\n\t").replace("{", "/* { */ {\n// = 7;\n"),
        FIRST.replace("int32 a = 1; map<string, int32> m = 2;", "map<string, int32> m = 2; int32 a = 0x1;"),
        FIRST.replace("string b = 3; string c = 4;", "string c = 4; string b = 03;"),
        FIRST.replace('import "options.proto"; ', "import 'options.proto'; "),
        FIRST.replace("int32 a = 1;", 'int32 a = 1 [json_name = "a"];'),
    ],
    ids=["spaces and comments", "order of fields", "order in a oneof", "quotes", "a name that it has anyway"],
)  # fmt: skip
def test_sources_with_the_same_meaning_are_one_schema(text):
    assert sketch(text) == sketch(FIRST)
    assert identity(parse(text, FILES)) == identity(parse(FIRST, FILES))


@each_row(
    "text",
    [
        FIRST.replace("int32 a = 1;", "int64 a = 1;"),
        FIRST.replace("int32 a = 1;", "int32 a = 1 [(q.number) = 1];"),
        FIRST.replace("int32 a = 1;", "int32 a = 1 [(q.of_source) = 'x'];"),
        FIRST.replace("int32 a = 1;", "optional int32 a = 1;"),
        FIRST.replace("int32 a = 1;", "int32 a = 1 [json_name = 'z'];"),
        FIRST.replace("enum E", "message N {} enum E"),
        FIRST.replace("message M", "message N {} message M"),
        FIRST.replace("oneof o", "oneof p"),
        FIRST.replace("package p", "package r"),
        FIRST.replace('import "options.proto"; ', ""),
    ],
    ids=["type", "option", "option of the source", "presence", "name in JSON", "message", "message before", "oneof",
         "package", "import"],
)  # fmt: skip
def test_sources_with_different_meanings_are_different_schemas(text):
    assert identity(parse(text, FILES)) != identity(parse(FIRST, FILES))


def test_the_order_of_messages_counts_because_serializers_write_it():
    one, other = HEAD + "message A {} message B {}", HEAD + "message B {} message A {}"
    assert identity(parse(one, FILES)) != identity(parse(other, FILES))


def test_an_option_that_no_import_defines_is_refused_and_not_dropped():
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", syntax="proto3")
    field = file.message_type.add(name="M").field.add(name="a", number=1, label=1, type=5, json_name="a")
    field.options.MergeFromString(b"\x80\xb5\x18\x07")  # 50000: 7
    text = base64.b64encode(file.SerializeToString()).decode()
    with pytest.raises(RegistryError, match="options that no imported file defines"):
        canonical(text, parse(text, {}), is_normalized=False)
