"""Errors of the client, and their messages: one line for a person, with a remedy where one exists."""

from __future__ import annotations

from pipeline_broker.base.error_code import RETRIABLE, TEXTS, ErrorCode
from pipeline_broker.client.rights import missing_right

__all__ = [
    "BrokerRefused",
    "ClientError",
    "ConnectionLost",
    "NoSuchGroup",
    "NoSuchPartition",
    "NoSuchTopic",
    "NoSuchTransaction",
    "check",
    "check_topic",
    "describe_error",
    "error_name",
    "with_hint",
]

NO_CODE = -2
"""The code of errors without one of Kafka's; -1 is UNKNOWN_SERVER_ERROR."""


class ClientError(Exception):
    """A failed request or connection, or a file that cannot be used. The message is one line for a person.

    Attributes:
        is_retriable: whether a retry may succeed.
        code: Kafka's error code, or NO_CODE.
    """

    is_retriable = False
    code: int = NO_CODE


class ConnectionLost(ClientError):
    """The connection broke, or the broker could not be reached. A new connection may succeed."""

    is_retriable = True


class BrokerRefused(ClientError):
    """An error code in a response.

    Args:
        message: the message, with the name of the error code in it.
        code: Kafka's error code.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
        self.is_retriable = code in RETRIABLE


class NoSuchTopic(ClientError):
    """An unknown topic that no broker is about to create.

    Not retriable, unlike a BrokerRefused with UNKNOWN_TOPIC_OR_PARTITION.
    """

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class NoSuchTransaction(ClientError):
    pass


class NoSuchPartition(ClientError):
    """A partition number beyond those of the topic.

    Args:
        partition: the unknown partition.
        count: the number of partitions of the topic.
    """

    def __init__(self, topic: str, partition: int, count: int) -> None:
        has = (
            "its only partition is 0"
            if count == 1
            else f"its partitions are 0 to {count - 1}"
            if count
            else "it has none"
        )
        super().__init__(f"topic {topic} has no partition {partition}: {has}")


class NoSuchGroup(ClientError):
    pass


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, or "error CODE" for one that this program does not know."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def check(code: int, what: str, message: str | None = None) -> None:
    """Raise BrokerRefused if an error code is not 0.

    Args:
        code: the error code of a response.
        what: the subject of the message.
        message: the broker's own message, if the response has one.
    """
    if code:
        raise BrokerRefused(f"{what}: {describe_error(code, message)}", code)


def describe_error(code: int, message: str | None = None) -> str:
    """Return an error code as words, followed by its name. Without words for the code, return only the name.

    Args:
        code: the error code of a response.
        message: the broker's own message, if the response has one. It is unused if a permission is missing.
    """
    # The broker's message about a missing right only repeats the error code.
    name, words = error_name(code), " ".join((missing_right(code) or message or _words(code)).split())
    return f"{words} ({name})" if words else name


def check_topic(code: int, name: str | None, what: str, message: str | None = None) -> None:
    """Like `check`, but raise NoSuchTopic for an unknown topic, so that nothing retries it.

    Raises:
        NoSuchTopic: the topic is unknown.
        BrokerRefused: the code is another error.
    """
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise NoSuchTopic(f"unknown topic {name!r}: see `topics list`")
    check(code, what, message)


def with_hint(error: str) -> str:
    """Append the most likely cause or remedy to the message of a failed first connection.

    Returns the message unchanged if no cause is known.
    """
    if error.endswith("closed the connection"):
        return f"{error}: check security.protocol"
    if "issuer certificate" in error or "self-signed" in error:
        return f"{error}: name the authority of the broker's certificate with ssl.ca.location"
    if "has expired" in error:
        return f"{error}: renew the broker's certificate, or set the clock of this machine"
    return error


def _words(code: int) -> str:
    try:
        return TEXTS.get(ErrorCode(code), "")
    except ValueError:
        return ""
