"""What goes wrong with an embedded broker: one line each, that says what to do.

Rules of this file: it imports nothing of ours but the error codes.
"""

from pipeline_broker.wire.error import ErrorCode

__all__ = ["EmbeddedBrokerError", "RefusedError", "WaitTimeoutError"]


class EmbeddedBrokerError(Exception):
    """It cannot start, does not run, or was used in a way that cannot work."""


class RefusedError(EmbeddedBrokerError):
    """The broker refused what was asked for.

    Attributes:
        code: Kafka's error.
    """

    def __init__(self, asked: str, code: int, message: str | None = None) -> None:
        self.code = ErrorCode(code)
        super().__init__(f"{asked}: {self.code.name}" + (f": {message}" if message else ""))


class WaitTimeoutError(EmbeddedBrokerError, TimeoutError):
    """What was waited for has not come; the text says what was there instead."""
