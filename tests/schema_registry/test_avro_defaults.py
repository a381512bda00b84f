"""Avro: the defaults of a new schema must be values of their types; a registered schema is read as it is."""

import json

from pipeline_broker.schema_registry.records import read_change
from tests.schema_registry.registry_desk import RegistryDesk
from tests.tables import each_row

POINT = {
    "type": "record",
    "name": "P",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 0}],
}
COLOUR = {"type": "enum", "name": "E", "symbols": ["RED", "BLUE"]}
HASH = {"type": "fixed", "name": "F", "size": 2}


def with_default(kind, default):
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "f", "type": kind, "default": default}]})


ROWS = [
    ("null", [None], [0, "", False]),
    ("boolean", [True, False], [0, 1, "true", None]),
    ("int", [0, -(2**31), 2**31 - 1], [2**31, -(2**31) - 1, 1.5, 1.0, "1", True, None]),
    ("long", [2**63 - 1, -(2**63)], [2**63, 0.5, "1", False]),
    ("float", [1, 1.5, "1.5"], ["x", True, None]),
    ("double", [1, -1e300, "1"], ["", False]),
    ("string", ["", "a", "☃"], [1, None, True]),
    ("bytes", ["", "\u00ff"], ["\u0100", 1, None]),
    (HASH, ["ab", "\u0000\u00ff"], ["a", "abc", "a\u0100", 2]),
    (COLOUR, ["RED"], ["GREEN", 0, None]),
    ({"type": "array", "items": "int"}, [[], [1, 2]], [None, {}, ["a"], 1]),
    ({"type": "map", "values": "int"}, [{}, {"a": 1}], [None, [], {"a": "b"}]),
    (["null", "int"], [None, 1], ["a", 1.5]),
    (POINT, [{"x": 1}, {"x": 1, "y": 2}], [{}, {"x": "a"}, {"x": 1, "y": None}, None, []]),
    ({"type": "int", "logicalType": "date"}, [1], ["2026-01-01"]),
]


@each_row("kind, right, wrong", ROWS, ids=[json.dumps(kind) for kind, _, _ in ROWS])
def test_a_default_is_a_value_of_its_type_as_the_specification_writes_it(kind, right, wrong):
    for default in right:
        assert RegistryDesk().register("a", with_default(kind, default)) == 1, default
    for default in wrong:
        answer = RegistryDesk().register("a", with_default(kind, default))
        assert answer != 1, default
        assert answer["error_code"] == 42201
        assert "Invalid default for field f: " in answer["message"]


def test_the_defaults_of_all_records_in_a_schema_are_checked():
    inner = json.loads(with_default("int", "a"))
    for kind in (inner, ["null", inner], {"type": "array", "items": inner}, {"type": "map", "values": inner}):
        outer = json.dumps({"type": "record", "name": "Outer", "fields": [{"name": "it", "type": kind}]})
        assert RegistryDesk().register("a", outer)["error_code"] == 42201


def test_a_record_within_itself_has_an_end():
    fields = [{"name": "next", "type": "R", "default": {}}]
    assert RegistryDesk().register("a", json.dumps({"type": "record", "name": "R", "fields": fields})) == 1


def test_a_compatibility_check_refuses_the_same_schemas_as_a_registration():
    desk = RegistryDesk()
    desk.register("a", with_default("int", 1))
    target = "/compatibility/subjects/a/versions/latest"
    assert desk.ask("POST", target, {"schema": with_default("int", "1")})[0] == 422
    assert desk.ask("POST", target, {"schema": with_default("int", 2)}) == (200, {"is_compatible": True})


def test_a_schema_from_elsewhere_is_usable_despite_wrong_defaults():
    """Another registry may not check defaults, and neither does the mode IMPORT."""
    desk, text = RegistryDesk(), with_default("int", "a")
    desk.ask("PUT", "/mode", {"mode": "IMPORT"})
    assert desk.register("a", text, id=7, version=1) == 7
    desk.ask("PUT", "/mode", {"mode": "READWRITE"})
    assert desk.register("a", text) == 7
    assert desk.ask("POST", "/subjects/a", {"schema": text})[1]["id"] == 7
    assert desk.ask("POST", "/compatibility/subjects/a/versions/latest", {"schema": text})[1] == {"is_compatible": True}
    reference = {"name": "R", "subject": "a", "version": 1}
    uses = '{"type":"record","name":"Uses","fields":[{"name":"r","type":"R"}]}'
    assert desk.register("uses", uses, references=[reference]) == 8

    other = RegistryDesk()
    for record in desk.records:
        other.state.apply(read_change(*record))
    assert other.register("a", text) == 7
