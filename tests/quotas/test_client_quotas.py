"""Quotas as records: durable ones survive, and the next change builds on pending ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.quotas.client_quotas import ClientQuotas
from pipeline_broker.quotas.entities import entity_of
from pipeline_broker.state.errors import CorruptStateRecordError

ENTITIES = st.sampled_from(
    [
        entity_of([("user", "ä")]),
        entity_of([("user", None)]),
        entity_of([("user", None), ("client-id", "c")]),
        entity_of([("ip", "::1")]),
    ]
)
QUOTAS = st.dictionaries(st.sampled_from(["producer_byte_rate", "request_percentage"]), st.floats(0.1, 1e9), max_size=2)


@given(st.lists(st.tuples(ENTITIES, QUOTAS)))
def test_a_restart_brings_back_what_was_durable(changes):
    catalogue, restarted, model = ClientQuotas(), ClientQuotas(), {}
    for entity, quotas in changes:
        write = catalogue.alter({entity: quotas})
        catalogue.durable(write)
        model[entity] = quotas
        for record in write.records:
            assert restarted.replay(record.key, record.value)
    expected = {entity: quotas for entity, quotas in model.items() if quotas}
    assert catalogue.all() == restarted.all() == expected


def test_only_the_next_change_sees_pending_quotas():
    catalogue, entity = ClientQuotas(), entity_of([("user", "a")])
    writes = [catalogue.alter({entity: {"producer_byte_rate": rate}}) for rate in (1.0, 2.0, 1.0)]
    assert catalogue.all() == {}
    for write, durable in zip(writes, (1.0, 2.0, 1.0), strict=True):
        assert catalogue.latest(entity) == {"producer_byte_rate": 1.0}
        catalogue.durable(write)
        assert catalogue.all() == {entity: {"producer_byte_rate": durable}}
    assert catalogue.latest(entity) == {"producer_byte_rate": 1.0}
    assert entity not in catalogue._pending, "durable quotas are not pending"


def test_records_of_other_types_are_ignored():
    assert not ClientQuotas().replay(b"\0\1topic", None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\6", b"\0\0{}"),
        (b"\0\6[1]", b"\0\0{}"),
        (b'\0\6[["user", "a"]]', b"\0\1{}"),
        (b'\0\6[["user", "a"]]', b"\0\0[]"),
        (b'\0\6[["user", "a"]]', b'\0\0{"producer_byte_rate": "much"}'),
        (b'\0\6[["user", "a"]]', b'\0\0{"producer_byte_rate": 0}'),
        (b'\0\6[["user", "a"]]', b'\0\0{"producer_byte_rate": Infinity}'),
        (b'\0\6[["user", 1]]', b"\0\0{}"),
        (b'\0\6[["planet", "a"]]', b"\0\0{}"),
        (b"\0", None),
    ],
)
def test_a_corrupt_record_raises_an_error(key, value):
    with pytest.raises(CorruptStateRecordError):
        ClientQuotas().replay(key, value)
