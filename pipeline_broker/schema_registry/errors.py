"""Errors of the registry, with Confluent's codes and texts.

The codes are those of Confluent's API reference ("Errors" of each resource). Clients act on them, so a new kind of
refusal uses one of them, or a plain HTTP status.
"""

from __future__ import annotations

from pipeline_broker.worker.work import Refusal

__all__ = [
    "RegistryError",
    "incompatible",
    "invalid_schema",
    "not_permitted",
    "reference_exists",
    "schema_not_found",
    "subject_not_configured",
    "subject_not_found",
    "subject_state",
    "version_not_found",
    "version_state",
]


class RegistryError(Refusal):
    """A refusal of a request by the registry.

    Args:
        code: Confluent's code. Its first three digits are the HTTP status.
        message: a text for users.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)  # pickling needs all arguments: the worker process raises it
        self.code, self.message = code, message

    def __str__(self) -> str:
        return self.message

    @property
    def status(self) -> int:
        return self.code if self.code < 1000 else self.code // 100


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | None = None) -> RegistryError:
    """Return the error for an unknown schema id, or without an id for a schema that is not in the subject."""
    return RegistryError(40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found")


def subject_state(subject: str, *, is_deleted: bool) -> RegistryError:
    """Return the error for a second soft deletion, or for a permanent deletion without a soft one before.

    Args:
        is_deleted: True for the first error, when the subject is soft-deleted already; False for the second one.
    """
    if is_deleted:
        return RegistryError(40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")
    return RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_state(subject: str, version: int, *, is_deleted: bool) -> RegistryError:
    """Return the error for a second soft deletion, or for a permanent deletion without a soft one before.

    Args:
        is_deleted: True for the first error, when the version is soft-deleted already; False for the second one.
    """
    if is_deleted:
        return RegistryError(
            40406, f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
        )
    return RegistryError(
        40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def subject_not_configured(subject: str, what: str) -> RegistryError:
    code = {"compatibility": 40408, "mode": 40409}[what]
    return RegistryError(code, f"Subject '{subject}' does not have subject-level {what} configured")


def incompatible(message: str) -> RegistryError:
    return RegistryError(40901, message)


def invalid_schema(message: str) -> RegistryError:
    return RegistryError(42201, message)


def not_permitted(message: str) -> RegistryError:
    """Return the error for an operation that the mode, or a bound of this registry, forbids."""
    return RegistryError(42205, message)


def reference_exists(subject: str, version: int) -> RegistryError:
    return RegistryError(42206, f"One or more references exist to the schema {{subject={subject},version={version}}}")
