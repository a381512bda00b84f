"""JSON Schema: the changes that Confluent's table calls compatible, and only changes that keep all instances valid.

Longer than most files: a row for each rule of that table, and for each keyword that it omits.
"""

import json

import hypothesis.strategies as st
import jsonschema
import pytest
from hypothesis import given, settings

from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.json_compatibility import incompatibilities
from pipeline_broker.schema_registry.json_schema import check_new, parse
from tests.crashes.lengths import examples
from tests.tables import each_row

STRING, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
NULLABLE = {"oneOf": [{"type": "null"}, STRING]}
FOO = {"properties": {"foo": STRING}}
CLOSED = {**FOO, "additionalProperties": False}
PARTIAL = {**FOO, "additionalProperties": STRING}
LIST = {"type": "array"}
MODERN = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
UNKNOWN_PATTERN = "a(?!b)"  # not found in "ab", which RE2 cannot tell


def found(original, update, **others):
    dependencies = {name: json.dumps(schema) for name, schema in others.items()}
    read = [parse(json.dumps(schema), dependencies) for schema in (update, original)]
    return [difference.partition(" at ")[0] for difference in incompatibilities(*read)]


def with_properties(base, **properties):
    return {**base, "properties": {**base["properties"], **properties}}


ROWS = [
    ("anything to empty", FOO, {}, []),
    ("empty to something", {}, FOO, ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
    ("other words", {"title": "a", "description": "b"}, {"title": "c"}, []),
    ("other type", {"type": "object"}, LIST, ["TYPE_CHANGED"]),
    ("narrowed type", NUMBER, INTEGER, ["TYPE_NARROWED"]),
    ("extended type", INTEGER, NUMBER, []),
    ("more types", {"type": ["object"]}, {"type": ["object", "array"]}, []),
    ("fewer types", {"type": ["object", "array"]}, {"type": ["object"]}, ["SUM_TYPE_NARROWED"]),
    ("longer minimum", {**STRING, "minLength": 10}, {**STRING, "minLength": 11}, ["MIN_LENGTH_INCREASED"]),
    ("shorter minimum", {**STRING, "minLength": 11}, {**STRING, "minLength": 10}, []),
    ("longer maximum", {**STRING, "maxLength": 10}, {**STRING, "maxLength": 12}, []),
    ("shorter maximum", {**STRING, "maxLength": 12}, {**STRING, "maxLength": 10}, ["MAX_LENGTH_DECREASED"]),
    ("new maximum", STRING, {**STRING, "maxLength": 10}, ["MAX_LENGTH_ADDED"]),
    ("no pattern", {**STRING, "pattern": "a"}, STRING, []),
    ("new pattern", STRING, {**STRING, "pattern": "a"}, ["PATTERN_ADDED"]),
    ("other pattern", {**STRING, "pattern": "a"}, {**STRING, "pattern": "b"}, ["PATTERN_CHANGED"]),
    ("no maximum", {**NUMBER, "maximum": 10}, NUMBER, []),
    ("higher maximum", {**NUMBER, "maximum": 10}, {**NUMBER, "maximum": 11}, []),
    ("lower maximum", {**NUMBER, "maximum": 11}, {**NUMBER, "maximum": 10}, ["MAXIMUM_DECREASED"]),
    ("higher minimum", {**NUMBER, "minimum": 10}, {**NUMBER, "minimum": 11}, ["MINIMUM_INCREASED"]),
    (
        "higher exclusive minimum",
        {**NUMBER, "exclusiveMinimum": 1},
        {**NUMBER, "exclusiveMinimum": 2},
        ["EXCLUSIVE_MINIMUM_INCREASED"],
    ),
    ("finer steps", {**NUMBER, "multipleOf": 10}, {**NUMBER, "multipleOf": 2}, []),
    ("decimal steps", {**NUMBER, "multipleOf": 0.3}, {**NUMBER, "multipleOf": 0.1}, []),
    ("coarser steps", {**NUMBER, "multipleOf": 2}, {**NUMBER, "multipleOf": 10}, ["MULTIPLE_OF_EXPANDED"]),
    ("other steps", {**NUMBER, "multipleOf": 10}, {**NUMBER, "multipleOf": 11}, ["MULTIPLE_OF_CHANGED"]),
    ("narrower not", {"not": NUMBER}, {"not": INTEGER}, []),
    ("wider not", {"not": INTEGER}, {"not": NUMBER}, ["NOT_TYPE_EXTENDED"]),
    ("new not", {}, {"not": NUMBER}, ["NOT_TYPE_ADDED"]),
    ("no enum", {**STRING, "enum": ["red"]}, STRING, []),
    ("new enum", STRING, {**STRING, "enum": ["red"]}, ["PRODUCT_TYPE_EXTENDED"]),
    ("more values", {"enum": ["red"]}, {"enum": ["red", "blue"]}, []),
    ("fewer values", {"enum": ["red", "blue"]}, {"enum": ["red"]}, ["ENUM_ARRAY_NARROWED"]),
    ("other values", {"enum": ["red"]}, {"enum": ["blue"]}, ["ENUM_ARRAY_CHANGED"]),
    ("true is not 1", {"enum": [1]}, {"enum": [True]}, ["TYPE_CHANGED"]),
    ("1.0 is 1", {"enum": [1.0]}, {"const": 1}, []),
    ("property removed from open", FOO, {"properties": {}}, []),
    ("property added to open", FOO, with_properties(FOO, bar=NUMBER), ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
    ("any property added to open", FOO, with_properties(FOO, bar={}), []),
    ("property changed", FOO, {"properties": {"foo": NUMBER}}, ["TYPE_CHANGED"]),
    ("property added to closed", CLOSED, with_properties(CLOSED, bar=NUMBER), []),
    (
        "required property added to closed",
        CLOSED,
        {**with_properties(CLOSED, bar=NUMBER), "required": ["bar"]},
        ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"],
    ),
    (
        "required property with default added to closed",
        CLOSED,
        {**with_properties(CLOSED, bar={**NUMBER, "default": 1}), "required": ["bar"]},
        [],
    ),
    (
        "property removed from closed",
        with_properties(CLOSED, bar=NUMBER),
        CLOSED,
        ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"],
    ),
    ("property added to partially open", PARTIAL, with_properties(PARTIAL, bar=STRING), []),
    (
        "other property added to partially open",
        PARTIAL,
        with_properties(PARTIAL, bar=NUMBER),
        ["PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    ("property removed, covered", with_properties(CLOSED, bar=STRING), {**FOO, "additionalProperties": NULLABLE}, []),
    (
        "property removed, not covered",
        with_properties(CLOSED, bar=NUMBER),
        PARTIAL,
        ["PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    (
        "property removed, covered by a pattern",
        with_properties(CLOSED, I_1=INTEGER),
        {**CLOSED, "patternProperties": {"^I_": NUMBER}},
        [],
    ),
    ("closed", FOO, CLOSED, ["ADDITIONAL_PROPERTIES_REMOVED"]),
    ("opened", CLOSED, FOO, []),
    ("partially closed", FOO, PARTIAL, ["ADDITIONAL_PROPERTIES_NARROWED"]),
    ("required", FOO, {**FOO, "required": ["foo"]}, ["REQUIRED_ATTRIBUTE_ADDED"]),
    ("required with default", FOO, {"properties": {"foo": {**STRING, "default": ""}}, "required": ["foo"]}, []),
    ("not required", {**FOO, "required": ["foo"]}, FOO, []),
    ("fewer properties", {"maxProperties": 2}, {"maxProperties": 1}, ["MAX_PROPERTIES_DECREASED"]),
    ("more properties", {"minProperties": 1}, {"minProperties": 2}, ["MIN_PROPERTIES_INCREASED"]),
    (
        "dependency added",
        {"dependencies": {"foo": ["bar"]}},
        {"dependencies": {"bar": ["foo"]}},
        ["DEPENDENCY_ARRAY_ADDED"],
    ),
    (
        "dependency extended",
        {"dependencies": {"foo": ["bar"]}},
        {"dependencies": {"foo": ["bar", "baz"]}},
        ["DEPENDENCY_ARRAY_EXTENDED"],
    ),
    ("dependency removed", {"dependencies": {"foo": STRING}}, {"dependencies": {}}, []),
    ("dependency changed", {"dependencies": {"foo": STRING}}, {"dependencies": {"foo": NUMBER}}, ["TYPE_CHANGED"]),
    ("dependency schema added", {}, {"dependencies": {"foo": STRING}}, ["DEPENDENCY_SCHEMA_ADDED"]),
    ("items added", LIST, {**LIST, "items": STRING}, ["SCHEMA_ADDED"]),
    ("items removed", {**LIST, "items": STRING}, LIST, []),
    ("items changed", {**LIST, "items": [STRING]}, {**LIST, "items": [NUMBER]}, ["TYPE_CHANGED"]),
    ("list of items removed", {**LIST, "items": [STRING, NUMBER]}, LIST, []),
    (
        "item added to open",
        {**LIST, "items": [STRING]},
        {**LIST, "items": [STRING, NUMBER]},
        ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL"],
    ),
    (
        "item added to closed",
        {**LIST, "items": [STRING], "additionalItems": False},
        {**LIST, "items": [STRING, NUMBER], "additionalItems": False},
        [],
    ),
    (
        "item added to partially open, which is closed",
        {**LIST, "items": [STRING], "additionalItems": STRING},
        {**LIST, "items": [STRING, STRING], "additionalItems": False},
        ["ADDITIONAL_ITEMS_REMOVED"],
    ),
    (
        "item added, not covered",
        {**LIST, "items": [STRING], "additionalItems": STRING},
        {**LIST, "items": [STRING, NUMBER], "additionalItems": STRING},
        ["ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    (
        "item removed from closed",
        {**LIST, "items": [STRING, NUMBER], "additionalItems": False},
        {**LIST, "items": [STRING], "additionalItems": False},
        ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"],
    ),
    (
        "item removed, not covered",
        {**LIST, "items": [STRING, NUMBER], "additionalItems": False},
        {**LIST, "items": [STRING], "additionalItems": STRING},
        ["ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    ("fewer items", {**LIST, "maxItems": 2}, {**LIST, "maxItems": 1}, ["MAX_ITEMS_DECREASED"]),
    ("more items", {**LIST, "minItems": 1}, {**LIST, "minItems": 2}, ["MIN_ITEMS_INCREASED"]),
    ("unique items", LIST, {**LIST, "uniqueItems": True}, ["UNIQUE_ITEMS_ADDED"]),
    ("not unique items", {**LIST, "uniqueItems": True}, LIST, []),
    ("branch added", {"oneOf": [STRING]}, {"oneOf": [NUMBER, STRING]}, []),
    ("branch removed", {"oneOf": [NUMBER, STRING]}, {"oneOf": [STRING]}, ["SUM_TYPE_NARROWED"]),
    ("branch changed", {"oneOf": [STRING]}, {"oneOf": [NUMBER]}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]),
    ("part removed", {"allOf": [{"enum": ["a"]}, STRING]}, {"allOf": [STRING]}, []),
    ("part added", {"allOf": [STRING]}, {"allOf": [STRING, {"enum": ["a"]}]}, ["PRODUCT_TYPE_EXTENDED"]),
    ("parts turned", {"allOf": [STRING, {"maxLength": 5}]}, {"allOf": [{"maxLength": 5}, STRING]}, []),
    ("one to any", {"oneOf": [STRING]}, {"anyOf": [NUMBER, STRING]}, []),
    ("any to all", {"anyOf": [STRING]}, {"allOf": [NUMBER, STRING]}, ["COMBINED_TYPE_CHANGED"]),
    ("any of many to one", {"anyOf": [NUMBER, STRING]}, {"oneOf": [STRING]}, ["COMBINED_TYPE_CHANGED"]),
    ("all to any", {"allOf": [STRING]}, {"anyOf": [NUMBER, STRING]}, []),
    ("nothing to one", STRING, {"oneOf": [NUMBER, STRING]}, []),
    ("nothing to all", STRING, {"allOf": [STRING]}, []),
    ("nothing to other", STRING, {"oneOf": [NUMBER, INTEGER]}, ["TYPE_CHANGED"]),
    ("to a reference", STRING, {"$ref": "#/definitions/s", "definitions": {"s": STRING}}, []),
    ("from a reference", {"$ref": "#/definitions/s", "definitions": {"s": STRING}}, STRING, []),
    (
        "target of a reference",
        {"items": {"$ref": "#/definitions/s"}, "definitions": {"s": STRING}},
        {"items": {"$ref": "#/definitions/s"}, "definitions": {"s": NUMBER}},
        ["TYPE_CHANGED"],
    ),
    ("other condition", {"if": STRING}, {"if": NUMBER}, ["IF_CHANGED"]),
    (
        "pattern added over a named property",
        CLOSED,
        {**CLOSED, "patternProperties": {"^f": NUMBER}},
        ["PATTERN_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"],
    ),
    (
        "property added, covered by a pattern that may not match",
        {"patternProperties": {UNKNOWN_PATTERN: NUMBER}, "additionalProperties": STRING},
        {
            "properties": {"ab": NUMBER},
            "patternProperties": {UNKNOWN_PATTERN: NUMBER},
            "additionalProperties": STRING,
        },
        ["PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    (
        "property removed, covered by a pattern that may not match",
        {"properties": {"ab": NUMBER}, "additionalProperties": False},
        {"patternProperties": {UNKNOWN_PATTERN: NUMBER}, "additionalProperties": STRING},
        ["PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    (
        "other neighbour of a reference that has another neighbour elsewhere",
        {**MODERN, "$defs": {"s": STRING}, "properties": {
            "a": {"$ref": "#/$defs/s", "maxLength": 5}, "b": {"$ref": "#/$defs/s", "maxLength": 9}}},
        {**MODERN, "$defs": {"s": STRING}, "properties": {
            "a": {"$ref": "#/$defs/s", "maxLength": 5}, "b": {"$ref": "#/$defs/s", "maxLength": 7}}},
        ["MAX_LENGTH_DECREASED"],
    ),
    (
        "dependency on names beside one on a schema",
        {**MODERN, "dependentRequired": {"foo": ["bar"]}},
        {**MODERN, "dependentRequired": {"foo": ["bar"]}, "dependentSchemas": {"foo": FOO}},
        ["DEPENDENCY_SCHEMA_ADDED"],
    ),
    (
        "the same dependencies on names and on a schema",
        {**MODERN, "dependentRequired": {"foo": ["bar"]}, "dependentSchemas": {"foo": FOO}},
        {**MODERN, "dependentRequired": {"foo": ["bar"]}, "dependentSchemas": {"foo": FOO}},
        [],
    ),
    (
        "one of two dependencies changed",
        {**MODERN, "dependentRequired": {"foo": ["bar"]}, "dependentSchemas": {"foo": FOO}},
        {**MODERN, "dependentRequired": {"foo": ["bar"]}, "dependentSchemas": {"foo": {"properties": {"foo": NUMBER}}}},
        ["TYPE_CHANGED"],
    ),
    (
        "none needed be contained",
        {**MODERN, "contains": STRING, "minContains": 0},
        {**MODERN, "contains": STRING},
        ["MIN_CONTAINS_CHANGED"],
    ),
    ("fewer need be contained", {**MODERN, "contains": STRING, "minContains": 1}, {**MODERN, "contains": STRING}, []),
    (
        "target of the reference of a condition",
        {"if": {"$ref": "#/definitions/s"}, "then": FOO, "definitions": {"s": STRING}},
        {"if": {"$ref": "#/definitions/s"}, "then": FOO, "definitions": {"s": {"type": "object"}}},
        ["IF_CHANGED"],
    ),
    (
        "chained references",
        {"propertyNames": {"$ref": "#/definitions/a"},
         "definitions": {"a": {"not": {"$ref": "#/definitions/b"}}, "b": {"maxLength": 1, "not": {"$ref": "#"}}}},
        {"propertyNames": {"$ref": "#/definitions/a"},
         "definitions": {"a": {"not": {"$ref": "#/definitions/b"}}, "b": {"maxLength": 2, "not": {"$ref": "#"}}}},
        ["PROPERTY_NAMES_CHANGED"],
    ),
    (
        "references of a condition that lead to the same",
        {"if": {"$ref": "#/definitions/s"}, "then": {"$ref": "#"}, "definitions": {"s": {"enum": [1, "a"]}}},
        {"if": {"$ref": "#/definitions/s"}, "then": {"$ref": "#"}, "definitions": {"s": {"enum": [1.0, "a"]}}},
        [],
    ),
    (
        "target of the reference of a named value",
        {"enum": [{"a": 1}], "properties": {"a": {"$ref": "#/definitions/a"}}, "definitions": {"a": INTEGER}},
        {"properties": {"a": {"$ref": "#/definitions/a"}}, "definitions": {"a": STRING}},
        ["PRODUCT_TYPE_EXTENDED"],
    ),
    (
        "a reference that depends on where it is reached from",
        {**MODERN, "items": {}},
        {**MODERN, "items": {"$dynamicRef": "#s"}, "$defs": {"s": {"$dynamicAnchor": "s", "type": "string"}}},
        ["$DYNAMIC_REF_CHANGED"],
    ),
    (
        "property left over to what nothing else has looked at",
        {**MODERN, "properties": {"foo": STRING, "bar": STRING}, "unevaluatedProperties": False},
        {**MODERN, "properties": {"foo": STRING}, "unevaluatedProperties": False},
        ["UNEVALUATED_PROPERTIES_EXTENDED"],
    ),
    (
        "property widened beside what nothing else has looked at",
        {**MODERN, "properties": {"foo": INTEGER}, "unevaluatedProperties": False},
        {**MODERN, "properties": {"foo": NUMBER}, "unevaluatedProperties": False},
        [],
    ),
    (
        "property left over by the target of a reference",
        {**MODERN, "$ref": "#/$defs/s", "unevaluatedProperties": False, "$defs": {"s": FOO}},
        {**MODERN, "$ref": "#/$defs/s", "unevaluatedProperties": False, "$defs": {"s": {}}},
        ["UNEVALUATED_PROPERTIES_EXTENDED"],
    ),
    (
        "branch that looks at less",
        {**MODERN, "anyOf": [FOO], "unevaluatedProperties": NUMBER},
        {**MODERN, "anyOf": [{}], "unevaluatedProperties": NUMBER},
        ["UNEVALUATED_PROPERTIES_EXTENDED"],
    ),
    ("anything left over", {**MODERN, **FOO, "unevaluatedProperties": {}}, {**MODERN, "unevaluatedProperties": {}}, []),
    (
        "item left over",
        {**MODERN, **LIST, "prefixItems": [STRING, STRING], "unevaluatedItems": False},
        {**MODERN, **LIST, "prefixItems": [STRING], "unevaluatedItems": False},
        ["UNEVALUATED_ITEMS_EXTENDED"],
    ),
    (
        "contained items left over",
        {**MODERN, **LIST, "contains": STRING, "unevaluatedItems": False},
        {**MODERN, **LIST, "unevaluatedItems": False},
        ["UNEVALUATED_ITEMS_EXTENDED"],
    ),
    ("nothing is accepted", STRING, False, ["TYPE_CHANGED"]),
    ("additional items alone", {"additionalItems": True}, {"additionalItems": False}, ["ADDITIONAL_ITEMS_REMOVED"]),
    (
        "additional items changed",
        {"additionalItems": STRING},
        {"additionalItems": NUMBER},
        ["ADDITIONAL_ITEMS_NARROWED"],
    ),
    ("additional items alone removed", {"additionalItems": STRING}, {}, []),
    ("nothing was accepted", False, STRING, []),
]  # fmt: skip


@each_row("original, update, expected", [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_table_of_the_documentation(original, update, expected):
    assert found(original, update) == expected


def test_schemas_that_refer_to_themselves_are_compared():
    def tree(leaf):
        return {"properties": {"left": {"$ref": "#"}, "leaf": leaf, "twice": {"not": {"not": {"$ref": "#"}}}}}

    assert found(tree(INTEGER), tree(NUMBER)) == []
    assert "TYPE_CHANGED" in found(tree(STRING), tree(NUMBER))


def test_keywords_beside_a_reference_count_since_2019():
    def with_draft(draft):
        return {"$schema": draft, "$ref": "#/$defs/s", "maxLength": 5, "$defs": {"s": STRING}}

    assert found(STRING, with_draft("https://json-schema.org/draft/2020-12/schema")) != []
    assert found(STRING, with_draft("http://json-schema.org/draft-07/schema#")) == []


def test_a_pattern_that_re2_does_not_know_is_taken_for_the_worst_and_not_logged(capfd):
    strange = {"patternProperties": {"(?!c)b": STRING}, "additionalProperties": False}
    assert found({"properties": {"b": NUMBER}, "additionalProperties": False}, strange) != []
    assert capfd.readouterr().err == ""


def test_references_to_other_documents_are_followed():
    here = {"properties": {"a": {"$ref": "other.json#/definitions/x"}}}
    assert found(here, here, **{"other.json": {"definitions": {"x": STRING}}}) == []


NOWHERE = {"$ref": "#/definitions/none"}


@each_row(
    "schema, is_refused",
    [
        ({"items": NOWHERE}, True),
        ({"allOf": [{}, NOWHERE]}, True),
        ({"properties": {"default": NOWHERE}}, True),
        ({"definitions": {"enum": {"not": NOWHERE}}}, True),
        ({"properties": {"a": {"$ref": "other.json"}}}, True),
        ({"default": NOWHERE, "const": NOWHERE, "enum": [NOWHERE], "examples": [NOWHERE]}, False),
        ({"properties": {"$ref": STRING, "a": {"$ref": "#/properties/$ref"}}}, False),
    ],
    ids=[
        "items", "one of several", "property with the name of a keyword", "definition with such a name",
        "document that is not known", "values", "property with the name of references",
    ],
)  # fmt: skip
def test_an_unresolved_reference_is_refused_anywhere_in_a_schema(schema, is_refused):
    if is_refused:
        with pytest.raises(RegistryError, match="unresolved reference"):
            check_new(parse(json.dumps(schema), {}))
    else:
        check_new(parse(json.dumps(schema), {}))


def test_a_registered_schema_with_an_unresolved_property_is_compared():
    before = {"properties": {"default": NOWHERE, "foo": STRING}}
    assert found(before, with_properties(before, foo=NUMBER)) == ["TYPE_CHANGED"]


names = st.sampled_from(["a", "b", "ab"])
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "a", "ab", "abc"])
LEAVES = (None, True, 0, 1, 2.5, "", "a", "ab", "b")
INSTANCES = [
    *LEAVES,
    *([], ["a"], [1, "a"], ["a", "a"], [1, 2, 3], [None, [], {}]),
    *({}, {"a": {"a": 1}}, {"a": [], "b": {}}, {"a": 1, "b": "a", "ab": None}),
    *({name: leaf} for name in ("a", "b", "ab") for leaf in LEAVES),
    *({"a": first, "b": second} for first in (0, "a") for second in (1, "ab", None)),
]
"""Of every kind some, near the bounds that schemas have here."""
types = st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])
small = st.integers(0, 3)


def keywords(inner):
    return st.fixed_dictionaries(
        {},
        optional={
            "type": types | st.lists(types, min_size=1, max_size=3, unique=True),
            "enum": st.lists(scalars, min_size=1, max_size=3, unique_by=repr),
            "const": scalars,
            "maxLength": small,
            "minLength": small,
            "pattern": st.sampled_from(["a", "^b", "c$"]),
            "maximum": small,
            "minimum": small,
            "exclusiveMaximum": small,
            "multipleOf": st.sampled_from([0.5, 1, 2, 3]),
            "properties": st.dictionaries(names, inner, max_size=2),
            "required": st.lists(names, max_size=2, unique=True),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^b", "(?!c)b"]), inner, max_size=2),
            "maxProperties": small,
            "minProperties": small,
            "dependencies": st.dictionaries(names, inner | st.lists(names, max_size=2, unique=True), max_size=2),
            "items": inner | st.lists(inner, min_size=1, max_size=2),
            "maxItems": small,
            "minItems": small,
            "uniqueItems": st.booleans(),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "contains": inner,
        },
    )


simple = st.booleans() | st.just({}) | types.map(lambda it: {"type": it})
objects = st.fixed_dictionaries(
    {},
    optional={
        "properties": st.dictionaries(names, simple, max_size=2),
        "required": st.lists(names, max_size=1),
        "additionalProperties": simple,
        "patternProperties": st.dictionaries(st.sampled_from(["a", "^b"]), simple, max_size=1),
        "maxProperties": st.integers(1, 2),
    },
)
schemas = objects | st.recursive(simple, keywords, max_leaves=5)


@st.composite
def changed(draw, schema):
    """Return a schema with one part added, removed or replaced, which is compatible often enough to be useful."""
    if not isinstance(schema, dict) or not schema:
        return draw(schemas)
    name = draw(st.sampled_from(sorted(schema)))
    other = dict(schema)
    match draw(st.sampled_from(["less", "more", "inner"])):
        case "less":
            del other[name]
        case "more":
            other.update(draw(objects | keywords(simple)))
        case "inner":
            if isinstance(other[name], dict) and name in ("not", "items", "additionalProperties"):
                other[name] = draw(changed(other[name]))
            elif type(other[name]) is int and name != "const":
                other[name] = max(0, other[name] + draw(st.sampled_from([-1, 1]))) or 1
    return other


@settings(max_examples=examples(300))
@given(st.data())
def test_a_compatible_schema_accepts_all_earlier_instances(data):
    original = data.draw(schemas)
    update = data.draw(changed(original))
    before, after = jsonschema.Draft7Validator(original), jsonschema.Draft7Validator(update)
    refused = [instance for instance in INSTANCES if not after.is_valid(instance) and before.is_valid(instance)]
    assert not refused or found(original, update) != []


@given(schemas)
def test_a_schema_is_compatible_with_itself(schema):
    assert found(schema, schema) == []
    assert found(schema, json.loads(json.dumps(schema))) == []
