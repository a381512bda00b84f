"""Errors of an embedded broker."""

from pipeline_broker.base.error_code import ErrorCode

__all__ = ["EmbeddedBrokerError", "RefusedError", "WaitTimeoutError"]


class EmbeddedBrokerError(Exception):
    """The broker cannot start, is not running, or was used in an invalid way."""


class RefusedError(EmbeddedBrokerError):
    """The broker refused a request.

    Attributes:
        code: Kafka's error code.
        reason: the error and its message, without the call.
    """

    def __init__(self, asked: str, code: int, message: str | None = None) -> None:
        self.code = ErrorCode(code)
        self.reason = self.code.name + (f": {message}" if message else "")
        self._asked, self._message = asked, message
        super().__init__(f"{asked}: {self.reason}")

    def after(self, seconds: float) -> "RefusedError":
        return RefusedError(self._asked, self.code, f"{self._message or 'refused'}, after {seconds:g} s")


class WaitTimeoutError(EmbeddedBrokerError, TimeoutError):
    """A wait timed out; the message describes the actual state."""

    hint = ""  # a possible cause, which is part of the message
