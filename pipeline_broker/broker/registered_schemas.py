"""The registered schemas, as far as the validation of records needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from pipeline_broker.config.properties import ConfigError, Settings

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

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


def check_schema_validation(configs: Settings, schemas: RegisteredSchemas | None) -> None:
    """Raise ConfigError if the settings of a topic require a schema registry that this broker does not have."""
    for name in VALIDATIONS:
        if schemas is None and configs.get(name) == "true":
            raise ConfigError(
                f"{name}: this broker has no schema registry. Start it with --schema-registry, and without --brokers"
            )
