"""The error of a broker, port or service that cannot start."""

__all__ = ["UnavailableError"]


class UnavailableError(Exception):
    """A broker, port or service cannot start. The text is one line that says what to do."""
