"""The change of one resource's settings, for both AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.changes import Operation
from pipeline_broker.state.topic_rules import TopicError

__all__ = ["Alteration", "SettingChange"]


@attrs.frozen
class SettingChange:
    """A change of one setting; `config_operation` is the number in the request, even if it names no operation."""

    name: str
    config_operation: int
    value: str | None


@attrs.frozen
class Alteration:
    """The requested change of one resource.

    Attributes:
        resource_type: the number in the request.
        replaces: whether settings that are not named return to their defaults.
    """

    resource_type: int
    name: str
    changes: Sequence[SettingChange]
    replaces: bool = False

    @property
    def sets(self) -> list[str]:
        return [each.name for each in self.changes if each.config_operation != Operation.DELETE]

    def operations(self, own: Mapping[str, str], unknown: ErrorCode) -> list[tuple[str, Operation, str | None]]:
        """Return the operations that apply this change: the name of a setting, the operation, and its value or None.

        Args:
            own: the current settings of the resource itself.
            unknown: the error for an unknown operation.

        Raises:
            TopicError: an operation is unknown; its code is `unknown`.
        """
        operations = []
        for each in self.changes:
            try:
                operation = Operation(each.config_operation)
            except ValueError:
                of_broker = unknown is ErrorCode.INVALID_REQUEST
                message = f"Unknown operations type {each.config_operation}" if of_broker else None
                raise TopicError(unknown, message) from None
            operations.append((each.name, operation, each.value))
        if self.replaces:
            named = {each.name for each in self.changes}
            operations += [(name, Operation.DELETE, None) for name in own if name not in named]
        return operations
