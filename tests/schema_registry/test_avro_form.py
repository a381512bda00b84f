"""Avro: texts that Java's library takes for one schema, and texts that it refuses (compared with Avro 1.12)."""

import json

import hypothesis.strategies as st
from hypothesis import given

from pipeline_broker.schema_registry.avro_schema import canonical, identity, incompatibilities, parse, sketch
from tests.drawn import drawn, measured
from tests.schema_registry.registry_desk import RegistryDesk
from tests.tables import each_row


def record(*fields, name="R", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(kind, name="a", **more):
    return {"name": name, "type": kind, **more}


def error(*fields, **more):
    return {**record(*fields, **more), "type": "error"}


COLOUR = {"type": "enum", "name": "E", "symbols": ["RED"]}
HASH = {"type": "fixed", "size": 1}
IN_N = {**COLOUR, "namespace": "n"}

SAME = [
    ("type as an object", {"type": "string"}, "string"),
    ("type as an object in a union", ["null", {"type": "int"}], ["null", "int"]),
    ("full name", record(name="n.R"), record(namespace="n")),
    ("namespace beside a full name", record(name="n.R", namespace="m"), record(name="n.R")),
    ("inherited namespace", record(field(COLOUR), namespace="n"), record(field(IN_N), namespace="n")),
    ("reference with a namespace", *(record(field(COLOUR), field(n, "b"), namespace="n") for n in ("E", "n.E"))),
    ("reference as an object", *(record(field(IN_N), field(n, "b")) for n in ({"type": "n.E"}, "n.E"))),
    ("definition that comes later", record(field("E"), field(COLOUR, "b")), record(field(COLOUR), field("E", "b"))),
    ("definition twice", record(field(COLOUR), field(COLOUR, "b")), record(field(COLOUR), field("E", "b"))),
    ("order that is the default", record(field("int", order="ascending")), record(field("int"))),
    ("order in capitals", record(field("int", order="IGNORE")), record(field("int", order="ignore"))),
    ("aliases", record(namespace="n", aliases=["B", "n.A"]), record(namespace="n", aliases=["n.A", "n.B", "A"])),
    ("attributes of other types", {"type": "int", "doc": "x", "name": "y"}, "int"),
    ("documentation that is not a string", record(doc=1), record()),
    ("number of a double", record(field("double", default=1)), record(field("double", default=1.0))),
    ("number of a double as a text", record(field("double", default="1.5")), record(field("double", default=1.5))),
    ("own attributes", {"type": "int", "x": 1, "y": {"b": 1, "a": 2}}, {"y": {"a": 2, "b": 1}, "type": "int", "x": 1}),
]  # fmt: skip
OTHERS = [
    ("documentation", record(doc="d"), record()),
    ("documentation of a field", record(field("int", doc="d")), record(field("int"))),
    ("alias", record(aliases=["A"]), record()),
    ("alias of a field", record(field("int", aliases=["b"])), record(field("int"))),
    ("default", record(field("int", default=1)), record(field("int"))),
    ("default of an enum", {**COLOUR, "default": "RED"}, COLOUR),
    ("order", record(field("int", order="descending")), record(field("int"))),
    ("logical type", {"type": "int", "logicalType": "date"}, "int"),
    ("own attribute", {"type": "int", "x": 1}, "int"),
    ("namespace", record(namespace="n"), record()),
    ("order of fields", record(field("int"), field("int", "b")), record(field("int", "b"), field("int"))),
    ("order of branches", ["null", "int"], ["int", "null"]),
    ("error", {**record(), "type": "error"}, record()),
]


@each_row("one, other", [row[1:] for row in SAME], ids=[row[0] for row in SAME])
def test_texts_that_java_takes_for_equal_are_one_schema(one, other):
    assert sketch(json.dumps(one)) == sketch(json.dumps(other)) == identity(json.dumps(one), {})
    desk = RegistryDesk()
    for query in ("", "?normalize=true"):
        bodies = [{"schema": json.dumps(each)} for each in (one, other)]
        answers = [desk.ask("POST", f"/subjects/s{query[1:2]}/versions{query}", body)[1] for body in bodies]
        assert [answer["id"] for answer in answers] == [1, 1]


@each_row("one, other", [row[1:] for row in OTHERS], ids=[row[0] for row in OTHERS])
def test_texts_that_differ_in_more_than_words_are_others(one, other):
    assert sketch(json.dumps(one)) != sketch(json.dumps(other))


REFUSED = {
    **{f"field {name!r}": record(field("int", name)) for name in ("a-b", "a b", "1a", "", "größe", "a.b", "$a")},
    **{f"record {name!r}": record(name=name) for name in ("a-b", "1a", "", "n..R", "int")},
    **{f"namespace {name!r}": record(namespace=name) for name in ("a-b", "1", "a.", "a..b")},
    "symbol": {**COLOUR, "symbols": ["A-B"]},
    "symbol that is not a string": {**COLOUR, "symbols": [1]},
    "symbol twice": {**COLOUR, "symbols": ["A", "A"]},
    "default of an enum": {**COLOUR, "default": "BLUE"},
    "alias": record(aliases=["a-b"]),
    "aliases as a text": record(aliases="A"),
    "order": record(field("int", order="up")),
    "size": {"type": "fixed", "name": "F", "size": -1},
    "size as a text": {"type": "fixed", "name": "F", "size": "1"},
    "no items": {"type": "array"},
    "no values": {"type": "map"},
    "no fields": {"type": "record", "name": "R"},
    "no symbols": {"type": "enum", "name": "E"},
    "no name": {"type": "record", "fields": []},
    "no type": {"name": "R"},
    "type within a type": {"type": {"type": "int"}},
    "field twice": record(field("int"), field("int")),
    "type twice in a union": ["int", "int"],
    "named type twice in a union": record(field([COLOUR, "E"])),
    "logical types of one type in a union": ["int", {"type": "int", "logicalType": "date"}],
    "union in a union": ["null", ["int"]],
    "another definition": record(field(COLOUR), field({**COLOUR, "symbols": ["BLUE"]}, "b")),
    "name that is not defined": record(field("E")),
    "name of another namespace": record(field("E"), field(IN_N, "b")),
    "number": 1,
}


@each_row("content", list(REFUSED.values()), ids=list(REFUSED))
def test_schemas_that_java_refuses_are_refused(content):
    assert RegistryDesk().register("s", json.dumps(content))["error_code"] == 42201


@each_row(
    "text",
    ['{"type":"double","default":NaN}', '"int" x', '"int" "x"', "int", '{"type":"int",}'],
    ids=["NaN", "word behind", "text behind", "word", "comma"],
)
def test_a_text_that_is_not_json_is_refused(text):
    assert RegistryDesk().register("s", text)["error_code"] == 42201
    with_default = '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":NaN}]}'
    assert RegistryDesk().register("s", with_default)["error_code"] == 42201


def test_comments_are_taken_as_java_takes_them():
    desk = RegistryDesk()
    assert desk.register("s", '/* " */ {"type": "string", // of all\n "x": "// no /* comment"}') == 1
    assert desk.ask("GET", "/schemas/ids/1")[1]["schema"] == '{"type":"string","x":"// no /* comment"}'


def test_a_schema_that_is_registered_is_compared_although_its_names_would_be_refused_today():
    old, new = (json.dumps(record(field("int", "a-b"), *more)) for more in ((), (field("int", "c"),)))
    assert incompatibilities(parse(new, {}), parse(old, {})) != []
    assert incompatibilities(parse(old, {}), parse(new, {})) == []


@each_row(
    "new, old, is_compatible",
    [
        (record(name="n.Order", aliases=["Purchase"]), record(name="n.Purchase"), True),
        (record(name="n.Order", aliases=["n.Purchase"]), record(name="n.Purchase"), True),
        (record(name="n.Order", aliases=["m.Purchase"]), record(name="n.Purchase"), False),
        (record(name="n.Order"), record(name="n.Purchase"), False),
        ({**COLOUR, "namespace": "n", "aliases": ["Old"]}, {**COLOUR, "name": "n.Old"}, True),
        ({**HASH, "name": "n.F", "aliases": ["G"]}, {**HASH, "name": "n.G"}, True),
        (record(field("int", "b", aliases=["a"])), record(field("int")), True),
        (error(field("int"), field("int", "b", default=1)), error(field("int")), True),
        (error(field("int"), field("int", "b")), error(field("int")), False),
        (record(field(["null", error(name="F")])), record(field(record(name="F"))), True),
    ],
    ids=["alias", "full alias", "alias elsewhere", "no alias", "enum", "fixed", "field", "error", "error with a field",
         "error in a union"],
)  # fmt: skip
def test_aliases_and_errors_are_compared_as_records_are(new, old, is_compatible):
    assert (not incompatibilities(parse(json.dumps(new), {}), parse(json.dumps(old), {}))) is is_compatible


names = st.sampled_from(["A", "B", "n.A", "m.C"])
primitives = st.sampled_from(["null", "int", "string", "double"])


def records(inner):
    fields = st.lists(st.tuples(inner, st.booleans()), max_size=3).map(
        lambda found: [field(kind, f"f{at}", **({"doc": "d"} if has else {})) for at, (kind, has) in enumerate(found)]
    )
    return st.tuples(names, fields, st.sampled_from(["record", "error"])).map(
        lambda it: {"type": it[2], "name": it[0], "fields": it[1]}
    )


def types(inner):
    return (
        inner.map(lambda kind: {"type": "array", "items": kind})
        | inner.map(lambda kind: {"type": "map", "values": kind, "x": 1})
        | records(inner)
        | names.map(lambda name: {"type": "enum", "name": name, "symbols": ["X"]})
    )


@st.composite
def respelled(draw, content, space=""):
    """Return the same schema in other words."""
    if isinstance(content, str):
        return draw(st.sampled_from([content, {"type": content}])) if content.islower() else content
    if isinstance(content, list):
        return [draw(respelled(each, space)) for each in content]
    found = dict(content)
    if ("name" in found and "symbols" in found) or found.get("type") in ("record", "error"):
        full = found["name"] if "." in found["name"] or not space else f"{space}.{found['name']}"
        space, _, short = full.rpartition(".")
        if draw(st.booleans()):
            found |= {"name": short, "namespace": space}
        else:
            found["name"] = full if space else short
            if not space:
                found["namespace"] = ""
    for name in ("items", "values"):
        if name in found:
            found[name] = draw(respelled(found[name], space))
    if "fields" in found:
        found["fields"] = [{**each, "type": draw(respelled(each["type"], space))} for each in found["fields"]]
    return dict(draw(st.permutations(list(found.items()))))


@measured(deep=0.05)
@given(st.data())
def test_a_schema_in_other_words_has_the_same_form_and_its_form_is_that_schema(data):
    content = data.draw(st.recursive(primitives, types, max_leaves=6) | records(records(types(primitives))))
    other = data.draw(respelled(content))
    drawn("deep", json.dumps(content).count('"fields"') > 1)
    one = json.dumps(content)
    assert sketch(one) == sketch(json.dumps(other))
    form = canonical(one, {}, is_normalized=True)
    assert sketch(form) == sketch(one)
    assert canonical(form, {}, is_normalized=True) == form
