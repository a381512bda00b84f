"""The options of the load client."""

import enum

import attrs

from pipeline_broker.client.errors import ClientError

ACKS_ALL = -1
IN_FLIGHT_MAX = 10_000
BATCH_BYTES_MAX = 16 << 20


class Arrivals(enum.Enum):
    CONSTANT = "constant"
    POISSON = "poisson"


@attrs.frozen(slots=True)
class LoadOptions:
    """A load: connections, requests, pace and duration.

    Attributes:
        host, port: a broker of the cluster; connections are opened to the leaders of the topic's partitions.
        in_flight: unanswered requests that a connection keeps (closed loop), or its maximum (open loop).
        record_size: bytes of a record's value.
        seconds: duration including the warm-up; exceeded if the last answers take longer.
        warmup_s: seconds at the beginning that are not measured.
        topic: is created if it does not exist.
        partitions: number of partitions that the topic is created with, and that are used.
        timeout_s: limit for the preparation, and again for missing answers at the end.
        rate_per_s: requests per second of all connections of all processes (open loop); None for a closed loop.
        arrivals: distribution of the intended times of an open loop.
        hang_up_s: seconds after its last intended time at which an open loop stops waiting for answers; None waits for
            all.
        think_s: seconds between an answer and the next request of a closed loop.
        batch_records: records per request.
        compression: name of a codec.
        keys: number of distinct record keys, which Kafka's default partitioner assigns to partitions; 0 sends records
            without keys to all partitions in turn.
        key_skew: exponent of a Zipf distribution over the keys; 0 is uniform.
        acks: -1 (all), 0 or 1.
        is_idempotent: makes each connection an idempotent producer.
        transaction_requests: produce requests per transaction; each connection runs one transaction at a time. 0 for
            none.
        read_share: share of requests that read instead of write, 0 to 1.
        read_bytes: maximum size of the records that a read requests.
        seed: seed of all random choices.
        security: properties of librdkafka and their values; see `security.read_security`.
        share, shares: index of this process, and number of processes.
        connections_together: connections of all processes; 0 if this process has all of them.
    """

    host: str
    port: int
    connections: int = 1
    in_flight: int = 1
    record_size: int = 100
    seconds: float = 5.0
    warmup_s: float = 0.5
    topic: str = "load"
    partitions: int = 4
    timeout_s: float = 30.0
    rate_per_s: float | None = None
    arrivals: Arrivals = Arrivals.CONSTANT
    hang_up_s: float | None = None
    think_s: float = 0.0
    batch_records: int = 1
    compression: str = "none"
    keys: int = 0
    key_skew: float = 0.0
    acks: int = ACKS_ALL
    is_idempotent: bool = False
    transaction_requests: int = 0
    read_share: float = 0.0
    read_bytes: int = 1 << 20
    seed: int = 0
    security: tuple[tuple[str, str], ...] = ()
    share: int = 0
    shares: int = 1
    connections_together: int = 0

    def check(self) -> None:
        """Check that the options can be combined.

        Raises:
            ClientError: two options contradict each other, or batches are too large; the message says which option to
                change.
        """
        writes_exactly = self.is_idempotent or self.transaction_requests
        is_open = self.rate_per_s is not None
        refusals = (
            (self.hang_up_s is not None and not is_open, "only an open loop can stop waiting for answers: give a rate"),
            (self.think_s and is_open, "a think time needs a closed loop: leave out the rate"),
            (not self.acks and not is_open, "a closed loop needs answers, and acks=0 has none: give a rate"),
            (not self.acks and self.read_share, "reads need answers, and acks=0 has none: leave out the read share"),
            (writes_exactly and self.acks != ACKS_ALL, "idempotent producers and transactions need acks=all"),
            (self.transaction_requests and self.read_share, "a transaction only writes: leave out the read share"),
            (self.transaction_requests and is_open, "transactions run in a closed loop: leave out the rate"),
            (self.transaction_requests and self.think_s, "transactions have no think time: leave out the think time"),
            (self.key_skew and not self.keys, "a key skew needs keys: give the number of keys"),
            (
                self.batch_records * self.record_size > BATCH_BYTES_MAX,
                f"brokers refuse batches of more than {BATCH_BYTES_MAX} bytes: choose fewer or smaller records",
            ),
        )
        for is_wrong, sentence in refusals:
            if is_wrong:
                raise ClientError(sentence)
