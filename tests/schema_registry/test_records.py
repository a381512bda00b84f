"""Records in the topic equal those of Confluent's registry byte for byte, and all of its records are read."""

import json

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pipeline_broker.schema_registry.records import (
    ConfigChange,
    ModeChange,
    SubjectDeleted,
    UnreadableRecordError,
    VersionChange,
    read_change,
)
from pipeline_broker.schema_registry.state import RegistryState
from pipeline_broker.schema_registry.values import Mode, Reference, Schema, SchemaType, Version
from tests.schema_registry.registry_desk import RegistryDesk
from tests.tables import each_row

STRING = Schema(SchemaType.AVRO, '"string"')
PROTO = Schema(SchemaType.PROTOBUF, "message M {}", (Reference("o.proto", "o", 2),))


@each_row(
    "change, key, value",
    [
        (
            VersionChange("Kafka-key", 1, Version("Kafka-key", 1, 1, STRING)),
            '{"keytype":"SCHEMA","subject":"Kafka-key","version":1,"magic":1}',
            '{"subject":"Kafka-key","version":1,"id":1,"schema":"\\"string\\"","deleted":false}',
        ),
        (
            VersionChange("s", 3, Version("s", 3, 9, PROTO, is_deleted=True)),
            '{"keytype":"SCHEMA","subject":"s","version":3,"magic":1}',
            (
                '{"subject":"s","version":3,"id":9,"schemaType":"PROTOBUF","references":'
                '[{"name":"o.proto","subject":"o","version":2}],"schema":"message M {}","deleted":true}'
            ),
        ),
        (VersionChange("s", 3, None), '{"keytype":"SCHEMA","subject":"s","version":3,"magic":1}', None),
        (
            SubjectDeleted("s", 2),
            '{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
            '{"subject":"s","version":2}',
        ),
        (
            ConfigChange("s", {"compatibilityLevel": "FULL"}),
            '{"keytype":"CONFIG","subject":"s","magic":0}',
            '{"compatibilityLevel":"FULL"}',
        ),
        (
            ConfigChange(None, {"compatibilityLevel": "NONE"}),
            '{"keytype":"CONFIG","subject":null,"magic":0}',
            '{"compatibilityLevel":"NONE"}',
        ),
        (ModeChange("s", Mode.READONLY), '{"keytype":"MODE","subject":"s","magic":0}', '{"mode":"READONLY"}'),
        (ModeChange("é", None), '{"keytype":"MODE","subject":"é","magic":0}', None),
    ],
    ids=["version", "deleted", "gone", "subject", "config", "config of all", "mode", "no mode"],
)
def test_a_change_is_written_as_confluent_writes_it_and_read_back(change, key, value):
    record = change.record()

    assert record == (key.encode(), None if value is None else value.encode())
    assert read_change(*record) == change


@each_row(
    "key, value",
    [
        (b'{"keytype":"NOOP","magic":0}', None),
        (b'{"keytype":"CONTEXT","magic":0}', b"{}"),
        (b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', None),
    ],
    ids=["noop", "later kind", "tombstone"],
)
def test_records_that_the_registry_does_not_keep_are_skipped(key, value):
    assert read_change(key, value) is None


def test_a_version_with_unknown_fields_of_a_later_registry_is_read():
    key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    value = b'{"subject":"s","version":1,"id":4,"guid":"g","ts":1,"md5Bytes":"x","schema":"\\"int\\"","deleted":false}'
    assert read_change(key, value) == VersionChange("s", 1, Version("s", 1, 4, Schema(SchemaType.AVRO, '"int"')))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
strange_keys = st.binary(max_size=20) | st.builds(
    lambda kind, fields: json.dumps({"keytype": kind, **fields}).encode(),
    st.sampled_from(["SCHEMA", "CONFIG", "MODE", "DELETE_SUBJECT"]),
    st.fixed_dictionaries({}, optional={"subject": json_values, "version": json_values}),
)


@given(
    key=st.none() | strange_keys,
    value=st.none() | st.binary(max_size=20) | json_values.map(lambda it: json.dumps(it).encode()),
)
def test_any_record_is_read_or_reported_as_unreadable(key, value):
    try:
        change = read_change(key, value)
    except UnreadableRecordError:
        return
    if change is not None:
        RegistryState().apply(change)


SCHEMAS = [f'{{"type":"fixed","name":"F{number}","size":{number + 1}}}' for number in range(3)]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("register"), st.sampled_from("ab"), st.sampled_from(SCHEMAS)),
        st.tuples(
            st.just("delete"),
            st.sampled_from("ab"),
            st.sampled_from(["", "/versions/1", "/versions/latest"]),
            st.booleans(),
        ),
        st.tuples(st.just("config"), st.sampled_from(["", "/a"]), st.sampled_from(["NONE", "FULL"])),
    ),
    max_size=12,
)


@given(steps)
def test_the_records_are_the_registry_compacted_or_not(steps):
    """A registry that replays all records, or only the last of each key, gives the same answers."""
    desk = RegistryDesk()
    desk.ask("PUT", "/config", {"compatibility": "NONE"})
    for kind, *arguments in steps:
        if kind == "register":
            desk.register(*arguments)
        elif kind == "delete":
            subject, version, is_permanent = arguments
            desk.ask("DELETE", f"/subjects/{subject}{version}?permanent={is_permanent}")
        else:
            desk.ask("PUT", f"/config{arguments[0]}", {"compatibility": arguments[1]})

    for records in (desk.records, compacted(desk.records)):
        other = RegistryDesk()
        for record in records:
            if (change := read_change(*record)) is not None:
                other.state.apply(change)
        for target in (
            "/schemas?deleted=true",
            "/subjects",
            "/subjects?deleted=true",
            "/config",
            "/config/a",
            "/schemas/ids/1",
        ):
            assert other.ask("GET", target) == desk.ask("GET", target)


def compacted(records):
    """Return the last record of each key, in order."""
    last = {key: position for position, (key, _) in enumerate(records)}
    return [record for position, record in enumerate(records) if last[record[0]] == position]


def test_a_record_without_a_key_is_unreadable():
    with pytest.raises(UnreadableRecordError):
        read_change(None, b"{}")


def test_a_deletion_of_a_subject_keeps_later_versions_of_another_registry():
    state = RegistryState()
    for number in (1, 2, 3):
        state.apply(VersionChange("s", number, Version("s", number, number, Schema(SchemaType.AVRO, f'"{number}"'))))
    state.apply(SubjectDeleted("s", 2))
    assert [version.number for version in state.versions("s")] == [3]


def test_a_schema_is_removed_when_its_only_version_is_overwritten():
    state = RegistryState()
    state.apply(VersionChange("s", 1, Version("s", 1, 7, STRING)))
    state.apply(VersionChange("s", 1, Version("s", 1, 8, PROTO)))
    assert list(state.schemas) == [8]
    assert (state.schema(8), state.versions_count) == (PROTO, 1)
