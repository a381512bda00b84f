"""How asking a cluster fails.

Rules of this file: every error is one line for a person that says what to do where something can be done. Whether it is
worth trying again is a property of the error, so that nobody looks into messages.
"""

from __future__ import annotations

from pipeline_broker.wire.error import RETRIABLE, TEXTS, ErrorCode

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
    "error_name",
    "hinted",
    "missing_right",
    "told",
]

_NEEDS_RIGHT_ON: dict[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
}
NO_CODE = -2
"""No error of Kafka's; -1 is one."""


class ClientError(Exception):
    """What was asked for was not done; the message is one line for a person."""

    is_retriable = False
    code: int = NO_CODE


class ConnectionLost(ClientError):
    """The broker went away, or could not be reached; another connection may do better."""

    is_retriable = True


class BrokerRefused(ClientError):
    """The broker answered with an error code.

    Args:
        message: what to tell, with the name of the code in it.
        code: Kafka's number of it.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
        self.is_retriable = code in RETRIABLE


class NoSuchTopic(ClientError):
    """There is no topic of this name, and nobody is about to create it."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class NoSuchTransaction(ClientError):
    """The coordinator does not know the transactional id."""


class NoSuchPartition(ClientError):
    """The topic has fewer partitions.

    Args:
        partition: the number that it does not have.
        count: how many partitions it has.
    """

    def __init__(self, topic: str, partition: int, count: int) -> None:
        has = "only 0" if count == 1 else f"0 to {count - 1}" if count else "none"
        super().__init__(f"topic {topic} has no partition {partition}: it has {has}")


class NoSuchGroup(ClientError):
    """Nobody knows a group of this name."""


def error_name(code: int) -> str:
    """Kafka's name of an error code, also of one that is newer than this program."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def check(code: int, what: str, message: str | None = None) -> None:
    """Turn an error code of an answer into an exception.

    Args:
        code: 0 is no error.
        what: was asked for, as the beginning of a sentence.
        message: the broker's own words, where the answer has any.

    Raises:
        BrokerRefused: the code is an error.
    """
    if code:
        raise BrokerRefused(f"{what}: {told(code, message)}", code)


def told(code: int, message: str | None = None) -> str:
    """An error code in words, and its name.

    Args:
        code: of an answer.
        message: the broker's own words, where the answer has any.
    """
    name, words = error_name(code), " ".join((missing_right(code) or message or _words(code)).split())
    return f"{words} ({name})" if words else name


def check_topic(code: int, name: str | None, what: str, message: str | None = None) -> None:
    """The same where a topic is asked for; one that is not there is not waited for.

    Raises:
        NoSuchTopic: it is not there.
        BrokerRefused: the code is another error.
    """
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise NoSuchTopic(f"there is no topic {name!r}: see `topics list`")
    check(code, what, message)


def hinted(error: str) -> str:
    """An error of a first contact, with what is most often behind it."""
    if error.endswith("closed the connection"):
        return f"{error}: is security.protocol right?"
    if "issuer certificate" in error or "self-signed" in error:
        return f"{error}: name its authority with ssl.ca.location"
    if "has expired" in error:
        return f"{error}: the broker needs a new one, or the clock of this machine is wrong"
    return error


def missing_right(code: int) -> str:
    """What lacks, and who gives it, in place of a broker's words, which only say the code again."""
    resource = _NEEDS_RIGHT_ON.get(code)
    return f"This needs a right on the {resource} that the client lacks; `acls add` grants it." if resource else ""


def _words(code: int) -> str:
    try:
        return TEXTS.get(ErrorCode(code), "")
    except ValueError:
        return ""
