"""Pairs of schemas that Karapace's tests judge, with their verdict, in notation of our own.

A row has a reader (the new schema), a writer (the old one), and whether Karapace's tests call them compatible. The
campaign (`python -m tests.schema_registry.campaign --karapace`) compares the verdicts. `DIFFERENCES` are the rows where
this registry decides otherwise, with the reason. Most of them are Confluent's verdicts, which this registry follows.

Longer than most files: a table.
"""

INT, LONG, FLOAT, DOUBLE, STRING, BYTES, NULL, BOOLEAN = (
    "int", "long", "float", "double", "string", "bytes", "null", "boolean",
)  # fmt: skip
PRIMITIVES = (INT, LONG, FLOAT, DOUBLE, STRING, BYTES, NULL, BOOLEAN)


def record(*fields, name="Record1", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


def enum(symbols, name="Enum1", **more):
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size, name="Fixed"):
    return {"type": "fixed", "name": name, "size": size}


def array(items):
    return {"type": "array", "items": items}


def values(kind):
    return {"type": "map", "values": kind}


F1, F2 = field("f1", STRING), field("f2", STRING)
ONE, TWO = record(F1), record(F1, F2)
TWO_DEFAULT = record(F1, {**F2, "default": "foo"})
THREE_DEFAULT = record(F1, {**F2, "default": "foo"}, field("f3", STRING, default="bar"))
A, DA = field("a", INT), field("a", INT, default=0)
B, DB = field("b", INT), field("b", INT, default=0)
LIST_OF = {
    kind: record(field("head", kind), field("tail", ["null", "List"], default=None), name="List")
    for kind in (INT, LONG)
}
NAMESPACES = {
    space: record(field("f1", [NULL, array(record(A, name="Inner", namespace=space))])) for space in ("ns1", "ns2")
}
DEFAULT_A = {"default": "A"}
NULLABLE_FIELDS = [field(name, [NULL, STRING], default=None) for name in ("name", "phone", "email")]
OLD = record(field("old1", INT), field("old2", STRING))
MEMBERS = {
    "array": {**array(STRING), "name": "fn"},
    "record": record(field("inner", STRING), name="fn"),
    "enum": enum(["foo", "bar"], name="fn"),
    "fixed": {**fixed(16, name="fn"), "aliases": ["other"]},
    "string": STRING,
    "map": {**values(INT), "name": "fn"},
}
WIDER = [
    (LONG, INT), (FLOAT, INT), (FLOAT, LONG), (DOUBLE, LONG), (DOUBLE, INT), (DOUBLE, FLOAT), (STRING, BYTES),
    (BYTES, STRING),
]  # fmt: skip
AVRO_COMPATIBLE = [
    *((kind, kind) for kind in PRIMITIVES),
    *WIDER,
    *(([reader], [writer]) for reader, writer in WIDER),
    (TWO_DEFAULT, ONE), (record(field("new", STRING, aliases=["f1"])), ONE), (record(field("f1", [NULL, STRING])), ONE),
    (record(field("f1", [NULL, STRING, INT])), record(field("f1", [NULL, STRING]))),
    (THREE_DEFAULT, ONE), (THREE_DEFAULT, TWO_DEFAULT), (TWO, TWO_DEFAULT), (ONE, TWO_DEFAULT), (ONE, TWO),
    (TWO_DEFAULT, TWO), (ONE, THREE_DEFAULT), (TWO_DEFAULT, THREE_DEFAULT),
    (record(F1, name="other", aliases=["Record1"]), TWO),
    (record(*NULLABLE_FIELDS, field("date", [NULL, STRING], default=None)), record(*NULLABLE_FIELDS)),
    *((record(field("fn", [NULL, kind])), record(field("fn", kind))) for kind in MEMBERS.values()),
    (record(field("old1", INT)), OLD), (record(field("old2", STRING)), OLD), (OLD, OLD),
    (record(field("old1", INT), field("new2", INT, default=42)), OLD),
    (array(STRING), array(STRING)), (array(LONG), array(INT)), (values(INT), values(INT)), (values(LONG), values(INT)),
    (enum("AB"), enum("AB")), (enum("ABC"), enum("AB")), (fixed(4), fixed(4)),
    ([], []), ([FLOAT], []), ([INT], []), ([STRING], []), ([FLOAT], [INT, LONG]), ([INT, STRING], [STRING, INT]),
    ([DOUBLE], [INT, FLOAT]), (FLOAT, [INT, FLOAT]), (LONG, [INT, LONG]), (DOUBLE, [INT, LONG, FLOAT, DOUBLE]),
    (FLOAT, [FLOAT]), ([INT], INT), (INT, [INT]),
    (record(), record()), (record(), record(A)), (record(DA), record(A)), (record(A), record(DA)),
    (record(field("a", LONG)), record(A)), (record(A), record(A, B)), (record(DA), record(A, B)),
    (record(A, DB), record(A)), (record(DA, DB), record()), (record(DA, DB), record(A)), (record(A, B), record(DA, DB)),
    (LIST_OF[INT], LIST_OF[INT]), (LIST_OF[LONG], LIST_OF[LONG]), (LIST_OF[LONG], LIST_OF[INT]),
    (record(field("e", enum("AB", **DEFAULT_A))), record(field("e", enum("ABC", **DEFAULT_A)))),
    (record(field("e", enum("AB", default="B"), **DEFAULT_A)), record(field("e", enum("ABC", **DEFAULT_A),
    default="B"))),
    (NAMESPACES["ns1"], NAMESPACES["ns2"]),
]  # fmt: skip
AVRO_INCOMPATIBLE = [
    (TWO, ONE), (ONE, record(field("f1", [NULL, STRING]))),
    (record(field("f1", [NULL, STRING])), record(field("f1", [NULL, STRING, INT]))),
    (record(field("old1", INT), field("new2", INT)), OLD),
    (values(STRING), array(STRING)), (INT, STRING), ([INT, STRING], [INT, STRING, LONG]),
    (fixed(4), fixed(8)), (fixed(8), fixed(4)),
    (record(DA, field("b", fixed(8))), record(DA, field("b", fixed(4)))),
    (enum("AB"), enum("ABC")), (enum("BC"), enum("ABC")),
    (record(field("e", enum("AB"))), record(field("e", enum("ABC")))),
    *(([INT], [INT, other]) for other in (STRING, record(A), enum("AB"), fixed(4), BOOLEAN, array(INT), values(INT),
    NULL)),
    ([STRING], [INT, STRING]), ([INT, record(A)], [INT, record(A, name="Record2")]),
    *(([INT], [other]) for other in (LONG, FLOAT, DOUBLE, BYTES)), ([INT], [INT, LONG, FLOAT, DOUBLE]),
    (record(DA, field("b", [INT], default=0)), record(DA, field("b", [INT, STRING], default=0))),
    (enum("AB"), enum("AB", name="Enum2")), (record(name="Record2"), record()), (fixed(4), fixed(4, name="Other")),
    (record(field("b", enum("AB"))), record(field("b", enum("AB", name="Enum2")))),
    (record(A), record()), (record(A, DB), record()),
    (NULL, INT), (NULL, LONG), (BOOLEAN, INT), (INT, NULL), (INT, BOOLEAN), (INT, LONG), (INT, FLOAT), (INT, DOUBLE),
    (LONG, FLOAT), (LONG, DOUBLE), (FLOAT, DOUBLE), (DOUBLE, STRING), (fixed(4), STRING), (STRING, BOOLEAN),
    (STRING, INT), (BYTES, NULL), (BYTES, INT), (record(A), INT), (array(INT), array(LONG)), (values(INT), array(INT)),
    (array(INT), values(INT)), (values(INT), values(LONG)), (INT, enum("AB")), (enum("AB"), INT),
    (FLOAT, [INT, LONG, FLOAT, DOUBLE]), (LONG, [INT, FLOAT]), (INT, [INT, FLOAT]), (LIST_OF[INT], LIST_OF[LONG]),
]  # fmt: skip


def of_type(kind, **more):
    return {"type": kind, **more}


def properties(**named):
    return of_type("object", properties=named)


def closed(**named):
    return {**properties(**named), "additionalProperties": False}


J_INT, J_NUMBER, J_STRING, J_BOOLEAN = (of_type(kind) for kind in ("integer", "number", "string", "boolean"))
J_OBJECT, J_ARRAY = of_type("object"), of_type("array")
D_INT = {**J_INT, "default": 0}
NOTHING = ({"not": {}}, {"not": True})
OPEN_TUPLES = {count: of_type("array", items=[J_INT] * count) for count in (1, 2)}
TUPLES = {count: {**each, "additionalItems": False} for count, each in OPEN_TUPLES.items()}
INTS, NUMBERS, STRINGS = (of_type("array", items=kind) for kind in (J_INT, J_NUMBER, J_STRING))
REQUIRED_B = {**closed(a=J_INT, b=J_INT), "required": ["b"]}
REQUIRED_DB = {**closed(a=J_INT, b=D_INT), "required": ["b"]}
POSITIVE = {**J_INT, "exclusiveMinimum": 0}
POSITIVES = of_type("array", items=POSITIVE)
POSITIVES_BY_REFERENCE = of_type("array", items={"$ref": "#/$defs/p"}) | {"$defs": {"p": POSITIVE}}
PATTERN_PROPERTY = of_type("object", patternProperties={"^a*": {}})
PROPERTY_NAMES = of_type("object", propertyNames={"pattern": "a*"})
MODERN = "https://json-schema.org/draft/2020-12/schema"
SEVEN = "http://json-schema.org/draft-07/schema#"
MODERN_OBJECT = {"$schema": MODERN, "type": "object"}
HARMLESS = (
    {"unevaluatedItems": False},
    {"$dynamicAnchor": "node"},
    {"$vocabulary": {"https://example.org/core": True}},
)
RESTRICTIONS = [  # a type with the wider and the narrower value of a keyword
    ("string", "maxLength", 3, 2), ("string", "minLength", 5, 7), ("string", "pattern", "a*", "a+"),
    ("integer", "maximum", 13, 11), ("number", "maximum", 13, 11), ("integer", "minimum", 17, 19),
    ("number", "minimum", 17, 19), ("integer", "exclusiveMaximum", 29, 23), ("number", "exclusiveMaximum", 29, 23),
    ("integer", "exclusiveMinimum", 31, 37), ("number", "exclusiveMinimum", 31, 37),
    ("object", "maxProperties", 43, 41),
    ("object", "minProperties", 47, 53), ("array", "maxItems", 61, 59), ("array", "minItems", 67, 71),
    ("array", "uniqueItems", False, True), ("number", "multipleOf", 10, 20), ("integer", "multipleOf", 10, 20),
]  # fmt: skip
ONE_OF = {
    "open": {"oneOf": [of_type("array", items=properties(b=J_NUMBER, c=D_INT))]},
    "a, b": {"oneOf": [of_type("array", items=closed(a=D_INT, b=J_NUMBER))]},
    "b, c": {"oneOf": [of_type("array", items=closed(b=J_NUMBER, c=J_INT))]},
}
OBJECTS = [
    J_OBJECT, properties(a={}), properties(a=J_INT), properties(b=J_INT), closed(), closed(a=J_INT), REQUIRED_B,
    REQUIRED_DB, PATTERN_PROPERTY, PROPERTY_NAMES, {}, of_type("object", maxProperties=43),
]  # fmt: skip
OTHERS = [
    J_BOOLEAN, J_INT, J_STRING, INTS, J_ARRAY, {"enum": ["A", "B"]}, POSITIVES, POSITIVES_BY_REFERENCE, TUPLES[1],
    {"not": J_INT}, {"oneOf": [J_STRING, J_INT]}, of_type(["string", "integer"]), *NOTHING,
]  # fmt: skip
JSON_REFLEXIVE = [
    *NOTHING, False, True, {}, J_BOOLEAN, J_NUMBER, J_OBJECT, J_ARRAY, *({"not": kind} for kind in (J_INT, J_OBJECT)),
    *TUPLES.values(), *OPEN_TUPLES.values(), INTS, {"enum": ["A", "B"]}, {"oneOf": [J_STRING, J_INT]}, REQUIRED_B,
    POSITIVES_BY_REFERENCE,
    *(of_type(kind, **{keyword: value}) for kind, keyword, value, _ in RESTRICTIONS), *ONE_OF.values(),
]  # fmt: skip
JSON_COMPATIBLE = [
    *((each, each) for each in JSON_REFLEXIVE),
    (J_OBJECT, closed(a=J_INT)), (True, closed(a=J_INT)), ({}, closed(a=J_INT)), (properties(b=J_INT), closed(a=J_INT)),
    (closed(a=J_INT, b=J_INT), closed(a=J_INT)), (closed(a=D_INT, b=J_NUMBER, c=D_INT), closed(a=D_INT, b=J_NUMBER)),
    (properties(b=J_NUMBER, c=D_INT), closed(a=D_INT, b=J_NUMBER, c=D_INT)),
    (properties(b=J_NUMBER, c=J_INT), closed(a=D_INT, b=J_NUMBER)),
    (properties(b=D_INT), closed(a=J_INT)), (closed(a=D_INT, b=J_INT), closed(a=J_INT)),
    (closed(a=D_INT, b=D_INT), closed()), (False, True), (True, False), (ONE_OF["open"], ONE_OF["a, b"]),
    *((True, each) for each in OBJECTS),
    (J_NUMBER, J_INT), (NUMBERS, INTS), (OPEN_TUPLES[1], TUPLES[1]),
    ({**OPEN_TUPLES[1], "additionalItems": J_INT}, TUPLES[1]),
    ({"enum": ["A", "B", "C"]}, {"enum": ["A", "B"]}), ({"oneOf": [J_STRING, J_INT]}, {"oneOf": [J_STRING]}),
    ({"oneOf": [J_STRING, J_INT]}, J_STRING), (properties(a=J_INT), closed(a=J_INT, b=J_INT)),
    (OPEN_TUPLES[1], OPEN_TUPLES[2]), (OPEN_TUPLES[1], TUPLES[2]), ({"oneOf": [J_STRING]}, J_STRING),
    (J_STRING, {"oneOf": [J_STRING]}), (closed(a=J_INT), closed()), NOTHING, ({}, True),
    *((of_type(kind), of_type(kind, **{keyword: value})) for kind, keyword, value, _ in RESTRICTIONS),
    *((of_type(kind, **{word: wide}), of_type(kind, **{word: narrow})) for kind, word, wide,
    narrow in RESTRICTIONS[:2]),
    *((of_type(kind, **{word: wide}), of_type(kind, **{word: narrow})) for kind, word, wide,
    narrow in RESTRICTIONS[3:]),
    (of_type("array", uniqueItems=False), J_ARRAY),
    (J_OBJECT, PATTERN_PROPERTY), (properties(a={}), PATTERN_PROPERTY), (PATTERN_PROPERTY, properties(a={})),
    (J_OBJECT, properties(a={})), (J_OBJECT, PROPERTY_NAMES), (PROPERTY_NAMES, properties(a={})),
    (PROPERTY_NAMES, closed(b=J_INT)), (J_STRING, of_type(["string"])),
    (of_type(["string", "integer"]), of_type(["string"])),
    (of_type(["string", "null"]), J_STRING), (properties(a=of_type(["string", "null"])), properties(a=J_STRING)),
    (of_type(["integer", "boolean"]), J_INT), (of_type(["string", "null", "boolean"]), J_STRING),
    (POSITIVES, POSITIVES_BY_REFERENCE), (POSITIVES_BY_REFERENCE, POSITIVES),
    (closed(a=J_INT), closed(a=J_INT) | {"required": ["a"]}),
    ({"enum": [1, 2, 3]}, {"enum": [1, 2]}), ({"enum": [{"a": 1}, {"b": 2}]}, {"enum": [{"a": 1}]}),
    *[
        ({"$schema": MODERN, "$defs": {"a": J_STRING}, "$ref": "#/$defs/a"},
         {"$schema": SEVEN, "definitions": {"a": J_STRING}, "$ref": "#/definitions/a"}),
        ({"$schema": MODERN, "type": "array", "prefixItems": [J_INT]}, {"$schema": SEVEN} | OPEN_TUPLES[1]),
        ({"$schema": MODERN, "type": "array", "prefixItems": [J_INT], "items": False}, {"$schema": SEVEN} | TUPLES[1]),
        ({"$schema": MODERN, "type": "object", "dependentRequired": {"a": ["b"]}},
         {"$schema": SEVEN, "type": "object", "dependencies": {"a": ["b"]}}),
        ({"$schema": MODERN} | properties(a=J_STRING), {"$schema": SEVEN} | properties(a=J_STRING)),
    ],
    *((({"$schema": MODERN} | properties(**{name: J_STRING}),) * 2) for name in ("unevaluatedItems", "$vocabulary")),
    ({"$schema": MODERN, "enum": ["$dynamicRef"]},) * 2, ({"$schema": MODERN,
    "const": {"$vocabulary": {"x": True}}},) * 2,
]  # fmt: skip
JSON_INCOMPATIBLE = [
    (closed(a=J_INT), False), *((each, closed(a=J_INT)) for each in NOTHING), (closed(b=J_INT), closed(a=J_INT)),
    (closed(b=J_NUMBER, c=J_INT), closed(a=D_INT, b=J_NUMBER)), (REQUIRED_B, closed(a=J_INT)),
    (closed(a=J_INT), REQUIRED_DB), (closed(b=J_NUMBER, c=J_INT), properties(b=J_NUMBER, c=D_INT)),
    (ONE_OF["b, c"], ONE_OF["a, b"]), (OPEN_TUPLES[1], INTS), (INTS, OPEN_TUPLES[1]),
    *((True, each) for each in OTHERS),
    (J_INT, J_NUMBER), (INTS, NUMBERS), ({"enum": ["A", "B"]}, {"enum": ["A", "B", "C"]}),
    ({"enum": ["B", "C"]}, {"enum": ["A", "B", "C"]}), ({"oneOf": [J_INT]}, {"oneOf": [J_NUMBER]}),
    ({"oneOf": [J_STRING]}, {"oneOf": [J_STRING, J_INT]}), (J_INT, {"oneOf": [J_STRING, J_INT]}),
    (J_BOOLEAN, J_INT), (J_INT, J_BOOLEAN), (J_STRING, J_BOOLEAN), (J_STRING, J_INT), (INTS, STRINGS),
    (TUPLES[2], OPEN_TUPLES[1]), (OPEN_TUPLES[2], OPEN_TUPLES[1]), (J_INT, {"enum": ["A", "B"]}),
    ({"enum": ["A", "B"]}, J_INT),
    *((each, True) for each in NOTHING), (REQUIRED_B, True), (REQUIRED_B, False),
    *((False, each) for each in NOTHING), *((each, False) for each in NOTHING),
    *((of_type(kind, **{keyword: value}), of_type(kind)) for kind, keyword, value,
    _ in RESTRICTIONS if value is not False),
    *((of_type(kind, **{word: narrow}), of_type(kind, **{word: wide})) for kind, word, wide, narrow in RESTRICTIONS),
    (of_type("array", uniqueItems=True), J_ARRAY),
    (of_type("number", multipleOf=7), of_type("number", multipleOf=10)),
    (closed(a=J_INT), PATTERN_PROPERTY), (PATTERN_PROPERTY, closed(b=J_INT)),
    (properties(a={}), J_OBJECT), (closed(a=J_INT), J_OBJECT), (properties(a={}), PROPERTY_NAMES),
    (closed(a=J_INT), PROPERTY_NAMES),
    (of_type(["string", "null"]), J_BOOLEAN), (properties(a=of_type(["string", "null"])), properties(a=J_INT)),
    (properties(a=of_type(["integer", "boolean"])), properties(a=J_STRING)),
    (closed(a=J_INT) | {"required": ["a"]}, closed(a=J_INT)), ({"enum": [1, 2]}, {"enum": [1, 2, 3]}),
    ({"enum": [{"a": 1}]}, {"enum": [{"a": 1}, {"b": 2}]}),
    ({"$schema": MODERN, "type": "array", "prefixItems": [J_INT, J_STRING]}, {"$schema": MODERN, "type": "array",
    "prefixItems": [J_INT]}),
    ({"$schema": MODERN} | properties(a=J_INT), {"$schema": SEVEN} | properties(a=J_NUMBER)),
    *(({**MODERN_OBJECT, **more}, MODERN_OBJECT) for more in (
        {"unevaluatedProperties": False}, {"$dynamicRef": "#node"}, *HARMLESS,
        {"properties": {"a": {"type": "object", "unevaluatedProperties": False}}},
    )),
]  # fmt: skip


def proto(body, package="a1"):
    return f'syntax = "proto3"; package {package}; {body}'


def nested(value, package="a1", rest=""):
    return proto(f"message T {{ message V {{ {value} }} string t = 1; .{package}.T.V v = 2; {rest} }}", package)


PERSON = "message P { string name = 1; int32 age = 2; }"
COLOUR = "message H { enum C { UNKNOWN = 0; RED = 1; %s } C c = 1; }"
PAGES = "message M { oneof %s { int32 page = 2; int32 count = 3; %s } }"
PROTOBUF_COMPATIBLE = [
    (nested("string s = 1;", "a2"), nested("string s = 1;")),
    (nested("string s = 1; string s2 = 2;"), nested("string s = 1;")),
    (nested("string s = 1;"), nested("string s = 1; string s2 = 2;")),
    (nested("string s2 = 1;"), nested("string s = 1;")),
    (nested("string s = 1; E x = 2;", rest="enum E { A = 0; B = 1; }"), nested("string s = 1; int32 x = 2;")),
    (nested("string s = 1; int32 x = 2;"), nested("string s = 1; E x = 2;", rest="enum E { A = 0; B = 1; }")),
    (proto(PERSON), proto(PERSON)), (proto(PERSON), proto("message P { string name = 1; }")),
    (proto("message P { string name = 1; }"), proto(PERSON)),
    (proto(COLOUR % "GREEN = 2;"), proto(COLOUR % "")),
    (proto(PAGES % ("info", "int32 view = 4;")), proto(PAGES % ("page_info", ""))),
    (proto("message M { bool best = 3; }"), proto("message M { bool test = 3; }")),
    (proto("enum E { A = 0; } message F { E e = 1; string id = 2; }"),
    proto("message F { E e = 1; } enum E { A = 0; }")),
    (proto(PERSON + " message Bar { string another = 1; }"), proto(PERSON)),
]  # fmt: skip
PROTOBUF_INCOMPATIBLE = [
    (proto("message Q { string name = 1; }"), proto("message P { string name = 1; }")),
    (proto("message P { string name = 1; string age = 2; }"), proto(PERSON)),
    (proto("message P { string name = 1; int32 age = 3; }"), proto(PERSON)),
    (proto(PERSON), proto(PERSON + " message Bar { string another = 1; }")),
]

ROWS = [
    (kind, reader, writer, verdict)
    for kind, verdict, rows in (
        ("AVRO", True, AVRO_COMPATIBLE),
        ("AVRO", False, AVRO_INCOMPATIBLE),
        ("JSON", True, JSON_COMPATIBLE),
        ("JSON", False, JSON_INCOMPATIBLE),
        ("PROTOBUF", True, PROTOBUF_COMPATIBLE),
        ("PROTOBUF", False, PROTOBUF_INCOMPATIBLE),
    )
    for reader, writer in rows
]

DIFFERENCES = {
    "Confluent: `true` and `{}` accept every value": [(True, each) for each in OTHERS],
    "Confluent: a schema that accepted no value may accept any": [
        (each, False) for each in (closed(a=J_INT), REQUIRED_B, *NOTHING)
    ],
    "Confluent: a schema that accepts no value fits no other": [(False, True)],
    "Confluent: a property without a rule may be added": [
        (properties(a={}), J_OBJECT),
        (properties(a={}), PROPERTY_NAMES),
    ],
    "Confluent: a pattern that matches a name covers its property": [(PATTERN_PROPERTY, closed(b=J_INT))],
    "Confluent: another package is another message": [(nested("string s = 1;", "a2"), nested("string s = 1;"))],
    "Confluent: fields are compared by number": [
        (proto("message P { string name = 1; int32 age = 3; }"), proto(PERSON))
    ],
    "the keyword has no effect": [({**MODERN_OBJECT, **each}, MODERN_OBJECT) for each in HARMLESS],
    "every array of integers begins with an integer": [(OPEN_TUPLES[1], INTS)],
    "stricter here: `propertyNames` must stay unchanged": [
        (PROPERTY_NAMES, properties(a={})),
        (PROPERTY_NAMES, closed(b=J_INT)),
    ],
}
