"""The write options: `kafka.*` for the client, and those of Spark's Kafka sink."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

import attrs

from pipeline_broker.base.host_and_port import PORT_DEFAULT, host_and_port
from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.security import ClientSecurity, read_security
from pipeline_broker.records.compression import Compression
from pyspark_pipeline_broker.numbers_by_partition import whole_number
from pyspark_pipeline_broker.option import Option

__all__ = ["CLIENT_PREFIX", "SinkOptions"]

CLIENT_PREFIX = "kafka."
SERVERS = "kafka.bootstrap.servers"
TOPIC = "topic"
TRANSACTIONAL_ID = "transactional.id"
TRANSACTIONS_TOPIC = "transactions.topic"
COMPRESSION = "kafka.compression.type"
REQUEST_TIMEOUT = "kafka.request.timeout.ms"
TRANSACTION_TIMEOUT = "kafka.transaction.timeout.ms"
OPTIONS: Final = {
    SERVERS: Option("", "`host:port` of one or more brokers, separated by commas"),
    TOPIC: Option("", "the topic of all rows"),
    TRANSACTIONAL_ID: Option("", "for streams: write exactly once. Every running query needs its own id"),
    TRANSACTIONS_TOPIC: Option(
        "the transactional.id and -transactions", "the topic that records which batches are committed"
    ),
    TRANSACTION_TIMEOUT: Option(
        "900000",
        "the broker aborts the transaction of a task after this time. It must be longer than a batch takes, "
        "and at most the broker's `transaction.max.timeout.ms`",
    ),
    COMPRESSION: Option("none", "`gzip`, `snappy`, `lz4` or `zstd`"),
    REQUEST_TIMEOUT: Option("30000", "the longest wait for a broker, retries included"),
}
"""Every option except those of the client's security, with its default, and its meaning in Markdown."""
KNOWN = tuple(OPTIONS)
OF_SPARK = frozenset({"checkpointlocation", "queryname"})
# Spark passes these options to every sink.
REQUEST_TIMEOUT_MS = 30_000
TRANSACTION_TIMEOUT_MS = 900_000
"""The default maximum of brokers (transaction.max.timeout.ms), because a batch of a stream may take long."""
MS_MAX = 2**31 - 1
CODECS = {codec.name.lower(): codec for codec in Compression}


@attrs.frozen
class SinkOptions:
    """Options of a batch or a stream to write.

    Attributes:
        addresses: hosts and ports of brokers.
        security: TLS and SASL settings of the client.
        topic: the topic of all rows; None if the column `topic` names it.
        request_timeout_ms: the longest wait for an answer, and for retries without progress.
        transactional_id: makes a stream exactly once; None for at least once.
        transactions_topic: the topic of the sink's ledger.
        transaction_timeout_ms: the broker aborts a task's transaction after this time.
    """

    addresses: tuple[tuple[str, int], ...]
    security: ClientSecurity
    topic: str | None
    compression: Compression
    request_timeout_ms: int
    transactional_id: str | None
    transactions_topic: str
    transaction_timeout_ms: int

    @classmethod
    def read(cls, options: Mapping[str, str], *, is_streaming: bool) -> SinkOptions:
        """Read the options of a batch or a stream.

        Raises:
            ValueError: an option is unknown, missing or wrong; the message is one line.
        """
        given = {name.lower(): text for name, text in options.items() if name.lower() not in OF_SPARK}
        named = {name: given.pop(name) for name in KNOWN if name in given}
        properties = {name.removeprefix(CLIENT_PREFIX): given.pop(name) for name in sorted(given) if _is_client(name)}
        if given:
            name = min(given)
            near = get_close_matches(name, KNOWN, n=1)
            hint = (
                f"Did you mean {near[0]}?" if near else f"Known options: {', '.join(KNOWN)} and kafka.* for security."
            )
            raise ValueError(f"unknown option {name} of a write. {hint}")
        if SERVERS not in named:
            raise ValueError(f"{SERVERS} is missing. Set it to the addresses of brokers, such as localhost:9092")
        transactional_id = named.get(TRANSACTIONAL_ID)
        if transactional_id is not None and not is_streaming:
            raise ValueError(
                f"{TRANSACTIONAL_ID} needs a stream, because Spark does not number batch writes. Remove it"
            )
        if transactional_id is None and TRANSACTIONS_TOPIC in named:
            raise ValueError(
                f"{TRANSACTIONS_TOPIC} has no effect without {TRANSACTIONAL_ID}. Set both, or none of them"
            )
        if transactional_id == "":
            raise ValueError(f"{TRANSACTIONAL_ID} is empty. Give it a text, or remove it")
        try:
            security = read_security(properties)
        except ClientError as error:
            raise ValueError(
                f"an option with the prefix kafka. is wrong, named here without the prefix: {error}"
            ) from None
        return cls(
            addresses=_addresses(named[SERVERS]),
            security=security,
            topic=named.get(TOPIC),
            compression=_codec(named.get(COMPRESSION, "none")),
            request_timeout_ms=_ms(named, REQUEST_TIMEOUT, REQUEST_TIMEOUT_MS),
            transactional_id=transactional_id,
            transactions_topic=named.get(TRANSACTIONS_TOPIC, f"{transactional_id}-transactions"),
            transaction_timeout_ms=_ms(named, TRANSACTION_TIMEOUT, TRANSACTION_TIMEOUT_MS),
        )


def _is_client(name: str) -> bool:
    return name.startswith(CLIENT_PREFIX)


def _addresses(text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        address = host_and_port(part, PORT_DEFAULT)
        if address is None:
            raise ValueError(f"{SERVERS} has {part!r}, which is not host:port. Correct it")
        found.append(address)
    if not found:
        raise ValueError(f"{SERVERS} names no broker. Add an address such as localhost:9092")
    return tuple(found)


def _codec(text: str) -> Compression:
    try:
        return CODECS[text.strip().lower()]
    except KeyError:
        raise ValueError(f"{COMPRESSION} must be one of {', '.join(CODECS)}, not {text!r}") from None


def _ms(named: Mapping[str, str], option: str, default: int) -> int:
    try:
        number = whole_number(named.get(option, str(default)))
    except ValueError as error:
        raise ValueError(f"{option} must be a number of milliseconds: {error}") from None
    if not 0 < number <= MS_MAX:
        raise ValueError(f"{option} must be 1 to {MS_MAX} milliseconds, not {number}")
    return number
