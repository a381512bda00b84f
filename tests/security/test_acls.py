"""Access rules as records: valid ones are read, others are reported."""

import json

import attrs
import pytest

from pipeline_broker.security.acl import AclBinding, AclFilter, AclOperation, PatternType, PermissionType, ResourceType
from pipeline_broker.security.acls import Acls, read_binding
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.metadata_records import RecordType, record_key

RULE = AclBinding(
    ResourceType.TOPIC, "t", PatternType.LITERAL, "User:ann", "*", AclOperation.READ, PermissionType.ALLOW
)
COLUMNS = [
    int(RULE.resource_type),
    RULE.resource_name,
    int(RULE.pattern_type),
    RULE.principal,
    RULE.host,
    int(RULE.operation),
    int(RULE.permission),
]


def key_of(columns):
    return record_key(RecordType.ACL, json.dumps(columns))


def test_a_rule_is_read_as_it_was_written():
    (record,) = Acls().add([RULE]).records
    assert read_binding(record.key, record.value) == RULE == read_binding(key_of(COLUMNS), None)


OTHERS = {
    "resource_type": (ResourceType.GROUP, ResourceType.ANY),
    "resource_name": ("u", None),
    "pattern_type": (PatternType.PREFIXED, PatternType.ANY),
    "principal": ("User:bob", None),
    "host": ("h", None),
    "operation": (AclOperation.WRITE, AclOperation.ANY),
    "permission": (PermissionType.DENY, PermissionType.ANY),
}


@pytest.mark.parametrize("field", OTHERS)
def test_a_filter_means_a_rule_when_each_of_its_fields_does(field):
    exact = AclFilter(*(getattr(RULE, each) for each in OTHERS))
    other, whichever = OTHERS[field]
    assert exact.matches(RULE)
    assert attrs.evolve(exact, **{field: whichever}).matches(RULE)
    assert not attrs.evolve(exact, **{field: other}).matches(RULE)
    assert not exact.matches(attrs.evolve(RULE, **{field: other}))


@pytest.mark.parametrize("kind", [PatternType.LITERAL, PatternType.PREFIXED])
def test_nothing_is_kept_of_removed_rules(kind):
    acls, rule = Acls(), attrs.evolve(RULE, pattern_type=kind)
    for write in (acls.add([rule]), acls.remove([rule])):
        for record in write.records:
            acls.replay(record.key, record.value)
    assert len(acls) == 0
    assert not acls._literal
    assert not any(acls._prefixed.values())


@pytest.mark.parametrize("place", range(len(COLUMNS)))
@pytest.mark.parametrize("wrong", [None, 99, [1]], ids=["nothing", "another number", "a list"])
def test_a_record_with_a_wrong_type_in_a_column_is_reported(place, wrong):
    columns = [*COLUMNS]
    columns[place] = wrong
    with pytest.raises(CorruptStateRecordError):
        read_binding(key_of(columns), None)


@pytest.mark.parametrize("columns", [COLUMNS[:-1], [*COLUMNS, 1], {}, 7])
def test_a_record_with_more_or_fewer_columns_is_reported(columns):
    with pytest.raises(CorruptStateRecordError):
        read_binding(key_of(columns), None)


def test_a_record_of_another_version_is_reported():
    with pytest.raises(CorruptStateRecordError):
        read_binding(key_of(COLUMNS), b"\0\7")
