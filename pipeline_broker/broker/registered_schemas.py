"""The registered schemas, as far as the validation of records needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from pipeline_broker.config.properties import ConfigError, Settings

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from pipeline_broker.base.schema_id import MessagePath

__all__ = ["RegisteredSchemas", "check_schema_validation"]

VALIDATIONS = ("confluent.key.schema.validation", "confluent.value.schema.validation")


class RegisteredSchemas(Protocol):
    """The schema registry of the broker.

    Attributes:
        is_current: whether all durable records of the registry have been applied.
    """

    @property
    def is_current(self) -> bool: ...

    def catch_up(self, then: Callable[[], None]) -> None:
        """Apply the remaining records of the registry, then call `then`."""

    def ids(self, subject: str) -> AbstractSet[int]:
        """Return the ids that are registered for a subject, including those of soft-deleted versions."""

    def record_names(self, schema_id: int) -> Mapping[MessagePath, str] | None:
        """Return the names of the records in a schema, empty for an unknown id; None if they must be read first.

        Schemas other than Protobuf have at most one name, with the path ().
        """

    def read_record_names(self, schema_id: int, then: Callable[[], None]) -> None:
        """Read the names for `record_names`, then call `then`, also if they cannot be read."""


def check_schema_validation(configs: Settings, schemas: RegisteredSchemas | None, *, in_cluster: bool) -> None:
    """Raise ConfigError if the settings of a topic require a schema registry that this broker does not have."""
    for name in VALIDATIONS:
        if schemas is None and configs.get(name) == "true":
            if in_cluster:
                raise ConfigError(
                    f"{name}: a cluster cannot validate schemas, because only one of its brokers has them. Use one"
                    " broker: serve without --brokers (in Python EmbeddedBroker, in pytest kafka_broker)"
                )
            raise ConfigError(
                f"{name}: this broker has no schema registry. Start it with --schema-registry (in Python and pytest,"
                " read its schema_registry_url first)"
            )
