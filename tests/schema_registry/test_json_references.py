"""JSON Schema: references are resolved against the addresses of the schemas around them, also in bundled documents."""

import json

import jsonschema
import pytest

from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.json_compatibility import incompatibilities
from pipeline_broker.schema_registry.json_schema import check_new, parse
from tests.schema_registry.registry_desk import RegistryDesk
from tests.tables import each_row

D4, D7 = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"
D19, D20 = "https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema"
HOST = "http://shop.example/"


def to(reference, **definitions):
    """Return a document with a property `to` that is a reference."""
    return {"type": "object", "properties": {"to": {"$ref": reference}}, "definitions": definitions}


def at(address, kind="string", **more):
    return {"$id": address, "type": kind, **more}


X = {"$anchor": "x", "type": "string"}
CASES = {
    "absolute": {"$schema": D7, **to(HOST + "a.json", a=at(HOST + "a.json"))},
    "absolute, named by its address": {"$schema": D7, **to(HOST + "a.json", **{HOST + "a.json": at(HOST + "a.json")})},
    "relative": {"$schema": D20, "$id": HOST + "root.json", **to("a.json", a=at("a.json"))},
    "relative to a folder": {"$schema": D20, "$id": HOST + "x/root.json", **to("../y/a.json", a=at("/y/a.json"))},
    "relative without a base": {"$schema": D7, **to("a.json", a=at("a.json"))},
    "id of draft 4": {"$schema": D4, "id": HOST + "root", **to("a", a={"id": "a", "type": "string"})},
    "no draft": to(HOST + "a.json", a=at(HOST + "a.json")),
    "empty fragment": {"$schema": D7, **to(HOST + "a.json#", a=at(HOST + "a.json"))},
    "fragment of an id": {"$schema": D7, **to("#a", a=at("#a"))},
    "fragment of an id of draft 4": {"$schema": D4, **to("#a", a={"id": "#a", "type": "string"})},
    "anchor": {"$schema": D20, **to("#a", a={"$anchor": "a", "type": "string"})},
    "dynamic anchor": {"$schema": D20, **to("#a", a={"$dynamicAnchor": "a", "type": "string"})},
    "anchor of another document": {
        "$schema": D20, **to(HOST + "a.json#x", a=at(HOST + "a.json", "object", **{"$defs": {"b": X}}))
    },
    "pointer into another document": {
        "$schema": D7, **to(HOST + "a.json#/definitions/b", a=at(HOST + "a.json", "object", definitions={"b": X}))
    },
    "pointer within the inner document": {
        "$schema": D7,
        **to("a.json", a={"$id": "a.json", "allOf": [{"$ref": "#/definitions/b"}], "definitions": {"b": X}}),
    },
    "inner document refers back": {
        "$schema": D7, "$id": HOST + "root.json",
        **to("a.json", a={"$id": "a.json", "allOf": [{"$ref": "root.json#/definitions/b"}]}, b={"type": "string"}),
    },
    "urn": {"$schema": D20, "$id": "urn:example:root", **to("urn:example:a", a=at("urn:example:a"))},
    "pointer with a urn": {"$schema": D20, "$id": "urn:example:root", **to("#/definitions/a", a={"type": "string"})},
    "pointer with escapes": {"$schema": D7, **to("#/definitions/a~1b%25c", **{"a/b%c": {"type": "string"}})},
    "below an unknown keyword": {"$schema": D7, "components": {"a": at(HOST + "a.json")}, **to(HOST + "a.json")},
}  # fmt: skip


@each_row("document", list(CASES.values()), ids=list(CASES))
def test_a_reference_leads_to_the_schema_with_its_address(document):
    assert RegistryDesk().register("s", json.dumps(document), "JSON") == 1
    parsed = parse(json.dumps(document), {})
    assert parsed.simplified(parsed.root["properties"]["to"])["type"] == "string"
    other = parse(json.dumps(document).replace('"string"', '"integer"'), {})
    assert incompatibilities(other, parsed) != []


@each_row(
    "document",
    [
        to("nowhere.json", a=at("a.json")),
        {"$id": HOST + "x/root.json", **to("a.json", a=at("/a.json"))},
        to("#b", a=at("#a")),
        to(HOST + "a.json#/definitions/none", a=at(HOST + "a.json")),
        {"$schema": D20, **to("a.json", a={"id": "a.json"})},
        {"$schema": D4, **to("a.json", a=at("a.json"))},
        {"$schema": D7, **to("a.json", a={"const": {"$id": "a.json"}})},
        {"$schema": D7, **to("a.json", a={"$ref": "#/definitions/b", "$id": "a.json"}, b={})},
        {"$schema": D20, "$dynamicRef": "#none"},
        {"$schema": D19, "$recursiveRef": "other"},
        {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}},
    ],
    ids=["nowhere", "other folder", "other fragment", "pointer to nothing", "keyword of draft 4", "keyword of draft 6",
         "value", "id beside a reference", "dynamic reference", "recursive reference", "itself"],
)  # fmt: skip
def test_a_reference_to_nowhere_is_refused(document):
    with pytest.raises(RegistryError, match=r"unresolved reference|leads to itself"):
        check_new(parse(json.dumps(document), {}))


def test_documents_of_other_subjects_are_found_by_name_and_by_address():
    other = {"$id": HOST + "other.json", "$defs": {"a": {"$anchor": "x", "type": "string"}, "b": {"$ref": "#/$defs/a"}}}
    for reference in ("other.json#/$defs/b", HOST + "other.json#x", "other.json#x", HOST + "sub/other.json#/$defs/a"):
        document = {"$schema": D20, "$id": HOST + "sub/root.json", **to(reference)}
        parsed = parse(json.dumps(document), {"other.json": json.dumps({"$schema": D20, **other})})
        assert parsed.simplified(parsed.root["properties"]["to"])["type"] == "string", reference


@each_row("draft", [D4, D7, D19, D20], ids=["4", "7", "2019", "2020"])
def test_metaschemas_are_known_and_compared(draft):
    document = {"$schema": D7, **to(draft)}
    parsed = parse(json.dumps(document), {})
    assert incompatibilities(parsed, parse(json.dumps(document), {})) == []
    validator = jsonschema.validators.validator_for({"$schema": draft})
    assert parsed.resolved(parsed.root["properties"]["to"]) == validator.META_SCHEMA


def test_the_first_of_two_schemas_with_an_address_counts():
    document = to("a.json", one=at("a.json"), two=at("b.json", "integer"))
    assert parse(json.dumps(document), {}).resolved({"$ref": "a.json"})["type"] == "string"
