"""What the registry refuses, with Confluent's numbers and words.

Rules of this file: data only. The numbers are those of Confluent's API reference (section "Errors" of each resource):
clients act on them, so a new kind of refusal takes one of them or none.
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
    """A request is refused.

    Args:
        code: Confluent's; its first three digits are HTTP's status.
        message: for a person.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)  # all of them: it is pickled
        self.code, self.message = code, message

    def __str__(self) -> str:
        return self.message

    @property
    def status(self) -> int:
        """HTTP's status."""
        return self.code if self.code < 1000 else self.code // 100


def subject_not_found(subject: str) -> RegistryError:
    """There is none of this name."""
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    """The subject has no such version."""
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | None = None) -> RegistryError:
    """There is no schema of this id, or, without one, the subject has not this schema."""
    return RegistryError(40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found")


def subject_state(subject: str, *, is_deleted: bool) -> RegistryError:
    """A subject must not, or must, be deleted softly first."""
    if is_deleted:
        return RegistryError(40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")
    return RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_state(subject: str, version: int, *, is_deleted: bool) -> RegistryError:
    """A version must not, or must, be deleted softly first."""
    if is_deleted:
        return RegistryError(
            40406, f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
        )
    return RegistryError(
        40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def subject_not_configured(subject: str, what: str) -> RegistryError:
    """A subject has no compatibility, or no mode, of its own."""
    code = {"compatibility": 40408, "mode": 40409}[what]
    return RegistryError(code, f"Subject '{subject}' does not have subject-level {what} configured")


def incompatible(message: str) -> RegistryError:
    """The schema does not go together with earlier ones."""
    return RegistryError(40901, message)


def invalid_schema(message: str) -> RegistryError:
    """It is no schema, or one of a type that there is not."""
    return RegistryError(42201, message)


def not_permitted(message: str) -> RegistryError:
    """The mode forbids it, or a bound of this registry."""
    return RegistryError(42205, message)


def reference_exists(subject: str, version: int) -> RegistryError:
    """Another schema needs what should be deleted."""
    return RegistryError(42206, f"One or more references exist to the schema {{subject={subject},version={version}}}")
