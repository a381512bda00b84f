"""Settings of subjects: accepted ones take effect as in Confluent's registry; others are refused."""

import json

import pytest

from tests.schema_registry.registry_desk import FIRST, WITH_DEFAULT, WITHOUT_DEFAULT, RegistryDesk, code
from tests.tables import each_row


@pytest.fixture
def desk():
    return RegistryDesk()


def of(major):
    return {"metadata": {"properties": {"major": major}}}


def other(name):
    return FIRST.replace('"a"', f'"{name}"')


@each_row(
    "settings",
    [
        {"compatibilityPolicy": "LENIENT"},
        {"validateRules": True},
        {"validateNewSchemas": True},
        {"compatibilitygroup": "major"},
        {"anything": 1},
        {"alias": 1},
        {"compatibilityGroup": ["major"]},
        {"normalize": "yes"},
        {"validateFields": 1},
        {"defaultMetadata": "text"},
        {"overrideRuleSet": [1]},
    ],
    ids=["policy", "rules", "new", "case", "unknown", "alias", "group", "switch", "other switch", "text", "list"],
)
def test_a_setting_that_would_not_act_is_refused_and_nothing_is_set(settings):
    for target in ("/config", "/config/s"):
        desk = RegistryDesk()
        status, answer = desk.ask("PUT", target, {"compatibility": "NONE", **settings})
        assert (status, answer["error_code"]) == (422, 422)
        assert next(iter(settings)) in answer["message"]
        assert desk.ask("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})


def test_unsupported_settings_with_their_default_are_accepted_and_not_kept(desk):
    body = {"compatibilityPolicy": "STRICT", "validateRules": False, "validateNewSchemas": None}
    body = {**body, "compatibility": "FULL"}
    assert desk.ask("PUT", "/config/s", body)[0] == 200
    assert desk.ask("GET", "/config/s") == (200, {"compatibilityLevel": "FULL"})


def test_a_schema_is_compared_with_those_of_its_group_alone(desk):
    desk.ask("PUT", "/config/s", {"compatibilityGroup": "major"})
    assert desk.register("s", FIRST, **of("1")) == 1
    assert desk.register("s", WITHOUT_DEFAULT, **of("2")) == 2
    assert code(desk.register("s", other("c"), **of("2"))) == 40901
    assert desk.register("s", WITH_DEFAULT, **of("1")) == 3
    body = {"schema": other("c"), **of("1")}
    assert desk.ask("POST", "/compatibility/subjects/s/versions/latest", body)[1] == {"is_compatible": False}
    body = {"schema": other("c"), **of("3")}
    assert desk.ask("POST", "/compatibility/subjects/s/versions", body)[1] == {"is_compatible": True}
    assert desk.ask("POST", "/compatibility/subjects/s/versions/2", {**body, **of("1")})[1] == {"is_compatible": True}


def test_schemas_without_the_property_are_a_group_of_their_own(desk):
    desk.ask("PUT", "/config/s", {"compatibilityGroup": "major"})
    assert desk.register("s", FIRST) == 1
    assert code(desk.register("s", WITHOUT_DEFAULT)) == 40901
    assert desk.register("s", WITHOUT_DEFAULT, **of("1")) == 2
    assert desk.register("s", WITH_DEFAULT, metadata={"tags": {"a": ["b"]}}) == 3


def test_a_transitive_level_looks_at_all_versions_of_the_group(desk):
    desk.ask("PUT", "/config/s", {"compatibilityGroup": "major", "compatibility": "BACKWARD_TRANSITIVE"})
    assert desk.register("s", FIRST, **of("1")) == 1
    assert desk.register("s", other("x"), **of("2")) == 2
    assert desk.register("s", WITH_DEFAULT, **of("1")) == 3
    assert code(desk.register("s", WITHOUT_DEFAULT, **of("1"))) == 40901


def test_an_alias_is_another_name_of_a_subject(desk):
    assert desk.register("real", FIRST) == 1
    assert desk.ask("PUT", "/config/short", {"alias": "real"})[0] == 200
    assert desk.ask("GET", "/subjects/short/versions/latest")[1]["subject"] == "real"
    assert desk.ask("POST", "/subjects/short", {"schema": FIRST})[1]["id"] == 1
    assert desk.register("short", WITH_DEFAULT) == 2
    assert desk.ask("GET", "/subjects/real/versions") == (200, [1, 2])
    assert desk.ask("GET", "/subjects") == (200, ["real"])
    assert desk.ask("GET", "/schemas/ids/1/versions?subject=short")[1] == [{"subject": "real", "version": 1}]
    target = "/compatibility/subjects/short/versions/latest"
    assert desk.ask("POST", target, {"schema": WITHOUT_DEFAULT})[1] == {"is_compatible": True}
    assert desk.ask("POST", target, {"schema": other("c")})[1] == {"is_compatible": False}
    assert desk.ask("GET", "/config/short") == (200, {"alias": "real"})
    assert desk.ask("DELETE", "/config/short")[0] == 200
    assert code(desk.ask("GET", "/subjects/short/versions/latest")) == 40401


def test_a_schema_without_metadata_is_the_one_with_the_metadata_of_the_latest(desk):
    first = {"metadata": {"properties": {"owner": "me"}}, "ruleSet": {"domainRules": [{"name": "r"}]}}
    assert desk.register("s", FIRST, **first) == 1
    assert desk.register("s", FIRST) == 1
    assert desk.ask("GET", "/subjects/s/versions") == (200, [1])
    assert desk.register("s", WITH_DEFAULT) == 2
    kept = desk.ask("GET", "/subjects/s/versions/2")[1]
    assert {name: kept[name] for name in first} == first
    assert desk.register("s", WITH_DEFAULT, metadata={"properties": {"owner": "you"}}) == 3
    assert code(desk.ask("POST", "/subjects/s", {"schema": FIRST})) == 40403, "a lookup adds nothing"


def test_metadata_without_a_schema_are_those_of_the_latest_schema_from_then_on(desk):
    assert code(desk.ask("POST", "/subjects/s/versions", {"metadata": {"properties": {"a": "1"}}})) == 42201
    assert desk.register("s", '{"type":"object"}', "JSON") == 1
    metadata = {"properties": {"a": "1"}}
    for number, body in enumerate([{"metadata": metadata}, {"schema": " ", "ruleSet": {"x": [1]}}], 2):
        assert desk.ask("POST", "/subjects/s/versions", body)[1] == {"id": number}
    kept = desk.ask("GET", "/subjects/s/versions/2")[1]
    assert (kept["schema"], kept["schemaType"], kept["metadata"]) == ('{"type":"object"}', "JSON", metadata)
    assert code(desk.ask("POST", "/subjects/s", {"metadata": metadata})) == 42201


def test_metadata_of_settings_is_added_to_that_of_a_schema(desk):
    body = {"defaultMetadata": {"properties": {"a": "1", "b": "1"}, "sensitive": ["a"]}}
    assert desk.ask("PUT", "/config", body)[0] == 200
    body = {"overrideMetadata": {"properties": {"c": "3"}, "tags": {"x": ["PII"]}}}
    assert desk.ask("PUT", "/config/s", body)[0] == 200
    given = {"properties": {"b": "2", "c": "2"}, "sensitive": ["b"]}
    assert desk.register("s", FIRST, metadata=given) == 1
    assert desk.ask("GET", "/subjects/s/versions/1")[1]["metadata"] == {
        "properties": {"a": "1", "b": "2", "c": "3"}, "sensitive": ["a", "b"], "tags": {"x": ["PII"]},
    }  # fmt: skip
    assert desk.register("s", FIRST, metadata=given) == 1
    assert desk.register("s", FIRST) == 1


def test_rules_of_settings_are_added_to_those_of_a_schema_by_their_names(desk):
    def rules(**kinds):
        return {f"{kind}Rules": [{"name": name, "expr": expr} for name, expr in found] for kind, found in kinds.items()}

    first, last = rules(domain=[("a", "1"), ("b", "1")]), rules(domain=[("c", "3")])
    desk.ask("PUT", "/config/s", {"defaultRuleSet": first, "overrideRuleSet": last})
    assert desk.register("s", FIRST, ruleSet=rules(domain=[("b", "2"), ("c", "2")], migration=[("m", "2")])) == 1
    expected = rules(domain=[("a", "1"), ("b", "2"), ("c", "3")], migration=[("m", "2")])
    assert desk.ask("GET", "/subjects/s/versions/1")[1]["ruleSet"] == expected


JSON = {"type": "object", "properties": {"a": {"type": "string"}}}
TEXTS = {
    "AVRO": FIRST,
    "JSON": json.dumps(JSON),
    "PROTOBUF": 'syntax = "proto3"; message M { string a = 1; } message N { string z = 1; }',
}


@each_row("kind", list(TEXTS), ids=list(TEXTS))
def test_reserved_fields_are_kept_free_if_fields_are_validated(kind):
    desk = RegistryDesk()

    def reserving(names):
        return {"metadata": {"properties": {"confluent:reserved": names}}}

    desk.ask("PUT", "/config", {"compatibility": "NONE"})
    assert desk.register("free", TEXTS[kind], kind, **reserving("a, z")) == 1
    desk.ask("PUT", "/config", {"validateFields": True})
    assert code(desk.register("s", TEXTS[kind], kind, **reserving("b,a"))) == 40901
    assert desk.register("s", TEXTS[kind], kind, **reserving("b, z")) == 2
    assert code(desk.register("s", TEXTS[kind], kind, **reserving("b"))) == 40901, "a reservation cannot be dropped"
    assert desk.register("s", TEXTS[kind], kind, **reserving("b,c,z")) == 3


def test_names_that_begin_with_two_dollars_are_refused_in_json_if_fields_are_validated(desk):
    text = json.dumps({"properties": {"$$a": {}}})
    assert desk.register("free", text, "JSON") == 1
    desk.ask("PUT", "/config", {"validateFields": True})
    assert code(desk.register("s", text.replace("{}", "true"), "JSON")) == 42201
