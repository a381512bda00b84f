"""Protobuf files that a schema may import although they are not registered, as in Confluent's registry.

* `google/protobuf`: files that come with Protobuf.
* `google/type`: Google's common types.
* `confluent`: files that Confluent's serializers know. They define `confluent.Meta`, which carries tags and rules, and
  two types that Protobuf lacks.
"""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    text_format,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.type import (
    calendar_period_pb2,
    color_pb2,
    date_pb2,
    datetime_pb2,
    dayofweek_pb2,
    decimal_pb2,
    expr_pb2,
    fraction_pb2,
    interval_pb2,
    latlng_pb2,
    localized_text_pb2,
    money_pb2,
    month_pb2,
    phone_number_pb2,
    postal_address_pb2,
    quaternion_pb2,
    timeofday_pb2,
)

__all__ = ["KNOWN"]

GOOGLE = (
    any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2, struct_pb2, timestamp_pb2,
    type_pb2, api_pb2, wrappers_pb2,
    calendar_period_pb2, color_pb2, date_pb2, datetime_pb2, dayofweek_pb2, decimal_pb2, expr_pb2, fraction_pb2,
    interval_pb2, latlng_pb2, localized_text_pb2, money_pb2, month_pb2, phone_number_pb2, postal_address_pb2,
    quaternion_pb2, timeofday_pb2,
)  # fmt: skip
CONFLUENT = (
    """
    name: "confluent/meta.proto" package: "confluent" syntax: "proto3" dependency: "google/protobuf/descriptor.proto"
    message_type {
      name: "Meta"
      field { name: "doc" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
      field {
        name: "params" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".confluent.Meta.ParamsEntry"
      }
      field { name: "tags" number: 3 label: LABEL_REPEATED type: TYPE_STRING }
      field { name: "rules" number: 4 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".confluent.Rule" }
      nested_type {
        name: "ParamsEntry"
        field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
        field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
        options { map_entry: true }
      }
    }
    message_type {
      name: "Rule"
      field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
      field { name: "doc" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
      field { name: "expr" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING }
      field { name: "sql" number: 4 label: LABEL_OPTIONAL type: TYPE_STRING }
    }
    """
    + "".join(
        f"""
        extension {{
          name: "{name}_meta" extendee: ".google.protobuf.{owner}Options" number: 1088
          label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".confluent.Meta"
        }}
        """
        for name, owner in (
            ("file", "File"), ("message", "Message"), ("field", "Field"), ("enum", "Enum"), ("enum_value", "EnumValue")
        )
    ),
    """
    name: "confluent/type/decimal.proto" package: "confluent.type" syntax: "proto3"
    message_type {
      name: "Decimal"
      field { name: "value" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
      field { name: "precision" number: 2 label: LABEL_OPTIONAL type: TYPE_UINT32 }
      field { name: "scale" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 }
    }
    """,
    """
    name: "confluent/type/variant.proto" package: "confluent.type" syntax: "proto3"
    message_type {
      name: "Variant"
      field { name: "metadata" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
      field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES }
    }
    """,
    # Older schemas import Decimal by this name.
    """
    name: "confluent/types/decimal.proto" syntax: "proto3"
    dependency: "confluent/type/decimal.proto" public_dependency: 0
    """,
)  # fmt: skip


def _known() -> dict[str, FileDescriptorProto]:
    files = [FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb) for module in GOOGLE]
    files += [text_format.Parse(text, FileDescriptorProto()) for text in CONFLUENT]
    return {file.name: file for file in files}


KNOWN: Mapping[str, FileDescriptorProto] = _known()
"""Descriptors of the known files by name, each after its imports."""
