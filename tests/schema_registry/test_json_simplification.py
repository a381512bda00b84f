"""JSON Schema: schemas in different words are compared by their meaning."""

import json
import time

import hypothesis.strategies as st
import jsonschema
from hypothesis import given, settings

from pipeline_broker.schema_registry.json_compatibility import incompatibilities
from pipeline_broker.schema_registry.json_schema import parse
from tests.crashes.lengths import examples
from tests.drawn import drawn, measured
from tests.schema_registry.test_json_compatibility import INSTANCES, changed, objects, simple
from tests.tables import each_row

D20 = "https://json-schema.org/draft/2020-12/schema"
TEXT, NUMBER, NOTHING = {"type": "string"}, {"type": "number"}, {"type": "null"}
EITHER = {"type": ["string", "null"]}
CLOSED = {"additionalProperties": False}
REST_CLOSED = {"unevaluatedProperties": False}
OBJECT, A, B = {"type": "object"}, {"properties": {"a": TEXT}}, {"properties": {"b": NUMBER}}
BOTH = {"properties": {"a": TEXT, "b": NUMBER}}
LIST = {"$schema": D20, "type": "array"}


def differences(original, update):
    return list(incompatibilities(parse(json.dumps(update), {}), parse(json.dumps(original), {})))


def closed(*names, **more):
    return {"$schema": D20, "type": "object", "properties": dict.fromkeys(names, TEXT), **more}


def referring(**keywords):
    return {**keywords, "definitions": {"text": TEXT, "address": closed("zip", additionalProperties=False)}}


ADDRESS, TEXT_REFERENCE = {"$ref": "#/definitions/address"}, {"$ref": "#/definitions/text"}
SAME = [
    ("types and anyOf", EITHER, {"anyOf": [TEXT, NOTHING]}),
    ("types and oneOf", EITHER, {"oneOf": [NOTHING, TEXT]}),
    ("anyOf and oneOf", {"anyOf": [TEXT, NOTHING]}, {"oneOf": [NOTHING, TEXT]}),
    ("one branch", TEXT, {"anyOf": [TEXT]}),
    ("one branch of each kind", {"allOf": [TEXT]}, {"oneOf": [{"anyOf": [TEXT]}]}),
    ("one branch with a title", {"allOf": [ADDRESS], "title": "x"}, {**ADDRESS, "title": "y"}),
    ("one branch with a default", {"allOf": [TEXT_REFERENCE], "default": "x"}, TEXT),
    ("branch with several types", {"anyOf": [EITHER, NUMBER]}, {"type": ["number", "string", "null"]}),
    ("union in a union", {"anyOf": [{"anyOf": [TEXT, NOTHING]}, NUMBER]},
     {"anyOf": [TEXT, {"oneOf": [NOTHING, NUMBER]}]}),
    ("bound beside a union", {"maxLength": 5, **EITHER}, {"anyOf": [{"maxLength": 5, **TEXT}, NOTHING]}),
    ("type beside a union", {"type": "string", "anyOf": [{"maxLength": 3}, {"minLength": 9}]},
     {"anyOf": [{**TEXT, "maxLength": 3}, {**TEXT, "minLength": 9}]}),
    ("values one by one", {"enum": ["a", "b"]}, {"anyOf": [{"const": "a"}, {"const": "b"}]}),
    ("parts of a scalar", {"allOf": [TEXT, {"maxLength": 5}, {"minLength": 1}]},
     {**TEXT, "maxLength": 5, "minLength": 1}),
    ("parts of an object", {"allOf": [{**OBJECT, **A}, {**B, "required": ["b"]}]},
     {**OBJECT, **BOTH, "required": ["b"]}),
    ("part beside an object", {**OBJECT, **A, "allOf": [B]}, {**OBJECT, **BOTH}),
    ("reference and a null", {"anyOf": [ADDRESS, NOTHING]}, {"oneOf": [NOTHING, {"allOf": [ADDRESS]}]}),
    ("nothing else is evaluated", closed("a", **REST_CLOSED), closed("a", additionalProperties=False)),
    ("nothing else is evaluated by parts", {"$schema": D20, "allOf": [closed("a")], **B, **REST_CLOSED},
     {**OBJECT, "$schema": D20, **BOTH, "additionalProperties": False}),
    ("no other items are evaluated", {**LIST, "prefixItems": [TEXT], "unevaluatedItems": False},
     {**LIST, "prefixItems": [TEXT], "items": False}),
    ("items are evaluated", {**LIST, "items": TEXT, "unevaluatedItems": False}, {**LIST, "items": TEXT}),
]  # fmt: skip


@each_row("one, other", [row[1:] for row in SAME], ids=[row[0] for row in SAME])
def test_schemas_that_accept_the_same_are_compatible_in_both_directions(one, other):
    def within(schema):
        properties = {"it": {name: value for name, value in schema.items() if name != "$schema"}}
        return referring(**{"$schema": schema.get("$schema", D20), "type": "object", "properties": properties})

    for wrapped in (lambda schema: {**referring(), **schema}, within):
        assert differences(wrapped(one), wrapped(other)) == []
        assert differences(wrapped(other), wrapped(one)) == []


NARROWER = [
    ("branch less", EITHER, {"anyOf": [TEXT, NUMBER]}),
    ("type less", {"anyOf": [TEXT, NOTHING, NUMBER]}, EITHER),
    ("narrower branch", EITHER, {"anyOf": [{**TEXT, "maxLength": 5}, NOTHING]}),
    ("value less", {"enum": ["a", "b"]}, {"anyOf": [{"const": "a"}, {"const": "c"}]}),
    ("part more", TEXT, {"allOf": [TEXT, {"maxLength": 5}]}),
    ("closed part", {"allOf": [closed("a")]}, {"allOf": [closed("a", additionalProperties=False)]}),
    ("property less, rest closed", closed("a", "b", **REST_CLOSED), closed("a", **REST_CLOSED)),
    ("open to closed", closed("a"), closed("a", **REST_CLOSED)),
    ("part that is closed to another", {**BOTH, **CLOSED}, {"allOf": [{**A, **CLOSED}, B]}),
    ("branch that is evaluated", *({"$schema": D20, "anyOf": [it, NOTHING], **REST_CLOSED} for it in (A, {}))),
    ("required property more", closed("a", **REST_CLOSED), closed("a", "b", **REST_CLOSED, required=["b"])),
    ("item less, rest closed", *({**LIST, "prefixItems": [TEXT] * it, "unevaluatedItems": False} for it in (2, 1))),
]  # fmt: skip


@each_row("original, update", [row[1:] for row in NARROWER], ids=[row[0] for row in NARROWER])
def test_each_narrowing_is_named(original, update):
    assert differences(original, update) != []


WIDER = [
    ("property more, rest closed", closed("a", **REST_CLOSED), closed("a", "b", **REST_CLOSED)),
    ("closed to open", closed("a", **REST_CLOSED), closed("a")),
    ("branch more", EITHER, {"anyOf": [TEXT, NOTHING, NUMBER]}),
    ("a null more", ADDRESS, {"anyOf": [ADDRESS, NOTHING]}),
    ("part less", {"allOf": [TEXT, {"maxLength": 5}]}, TEXT),
    ("property more as the rest", closed(unevaluatedProperties=TEXT), closed("b", unevaluatedProperties=TEXT)),
]  # fmt: skip


@each_row("original, update", [row[1:] for row in WIDER], ids=[row[0] for row in WIDER])
def test_widening_is_compatible(original, update):
    assert differences(referring(**original), referring(**update)) == []


def test_unions_in_unions_that_differ_at_the_bottom_are_compared_in_time():
    def chain(leaf):
        for _ in range(40):
            leaf = {"anyOf": [{"type": "object", "properties": {"a": leaf}}, {"type": "array", "items": TEXT}, NOTHING]}
        return leaf

    begin = time.process_time()
    assert differences(chain({"maxLength": 5}), chain({"maxLength": 4})) != []
    assert differences(chain({"maxLength": 4}), chain({"maxLength": 5})) == []
    assert time.process_time() - begin < 5, "each level twice would take years"


def test_a_schema_that_contains_itself_is_left_as_it_is():
    loop = {"allOf": [{"$ref": "#"}], "anyOf": [{"$ref": "#"}]}
    assert differences(loop, loop) == []


modern = st.fixed_dictionaries(
    {},
    optional={
        "unevaluatedProperties": simple,
        "allOf": st.lists(objects, min_size=1, max_size=2),
        "anyOf": st.lists(objects | simple, min_size=1, max_size=3),
        "properties": st.dictionaries(st.sampled_from(["a", "b"]), simple, max_size=2),
        "additionalProperties": simple,
        "required": st.lists(st.sampled_from(["a", "b"]), max_size=1),
        "type": st.lists(st.sampled_from(["object", "null", "string"]), min_size=1, max_size=2, unique=True),
    },
)


@measured(compatible=0.1, unevaluated=0.2)
@settings(max_examples=examples(300))
@given(st.data())
def test_a_compatible_schema_of_a_modern_draft_accepts_all_earlier_instances(data):
    original = data.draw(modern)
    update = data.draw(changed(original) | modern)
    original, update = ({"$schema": D20, **it} if isinstance(it, dict) else it for it in (original, update))
    try:
        jsonschema.Draft202012Validator.check_schema(update)
    except jsonschema.SchemaError:
        return
    is_compatible = not differences(original, update)
    drawn("compatible", is_compatible)
    drawn("unevaluated", "unevaluatedProperties" in original)
    before, after = jsonschema.Draft202012Validator(original), jsonschema.Draft202012Validator(update)
    refused = [instance for instance in INSTANCES if not after.is_valid(instance) and before.is_valid(instance)]
    assert not refused or not is_compatible
