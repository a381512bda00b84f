"""Names of the records in schemas, as subject name strategies use them."""

import pytest

from pipeline_broker.schema_registry import formats
from pipeline_broker.schema_registry.formats import ResolvedSchema, record_names
from pipeline_broker.schema_registry.values import Schema, SchemaType

ORDER = '{"type": "record", "name": "shop.Order", "fields": []}'
PROTOBUF = 'syntax = "proto3"; package shop; message A {} message B { message C {} enum E { X = 0; } }'


@pytest.mark.parametrize(
    ("kind", "text", "dependencies", "expected"),
    [
        (SchemaType.AVRO, ORDER, (), {(): "shop.Order"}),
        (SchemaType.AVRO, '{"type": "record", "name": "A", "namespace": "b.c", "fields": []}', (), {(): "b.c.A"}),
        (SchemaType.AVRO, '{"type": "record", "name": "A", "fields": []}', (), {(): "A"}),
        (SchemaType.AVRO, '"shop.Order"', (("shop.Order", ORDER),), {(): "shop.Order"}),
        (SchemaType.AVRO, '{"type": "enum", "name": "A", "symbols": ["B"]}', (), {}),
        (SchemaType.AVRO, '"string"', (), {}),
        (SchemaType.AVRO, f'["null", {ORDER}]', (), {}),
        (SchemaType.JSON, '{"title": "Order", "type": "object"}', (), {(): "Order"}),
        (SchemaType.JSON, '{"$id": "a", "type": "object"}', (), {}),
        (SchemaType.JSON, "true", (), {}),
        (SchemaType.PROTOBUF, PROTOBUF, (), {(0,): "shop.A", (1,): "shop.B", (1, 0): "shop.B.C"}),
        (SchemaType.PROTOBUF, 'syntax = "proto3"; message A {}', (), {(0,): "A"}),
    ],
)
def test_records_have_the_names_that_clients_derive_subjects_from(kind, text, dependencies, expected):
    assert record_names(ResolvedSchema(Schema(kind, text), dependencies)) == expected


def test_the_names_of_one_schema_are_bounded(monkeypatch):
    monkeypatch.setattr(formats, "NAMES_CHARACTERS_MAX", len("shop.A") + len("shop.B"))
    assert list(record_names(ResolvedSchema(Schema(SchemaType.PROTOBUF, PROTOBUF), ()))) == [(0,), (1,)]
