"""The refusal of a request to a group."""

from pipeline_broker.base.error_code import ErrorCode

__all__ = ["GroupError"]


class GroupError(Exception):
    """A refused request; the group is unchanged.

    Attributes:
        code: the error code for the client.
        message: Kafka's error message.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
