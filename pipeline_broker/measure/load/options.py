"""What is asked of the load client.

Rules of this file: data only; what does not go together is refused here, in one line.
"""

import enum

import attrs

from pipeline_broker.client.errors import ClientError

ACKS_ALL = -1
IN_FLIGHT_MAX = 10_000
BATCH_BYTES_MAX = 16 << 20


class Arrivals(enum.Enum):
    """How the moments of an open loop lie."""

    CONSTANT = "constant"
    POISSON = "poisson"


@attrs.frozen(slots=True)
class LoadOptions:
    """What is sent to a broker, when, and for how long.

    Attributes:
        host, port: a broker of the cluster; connections go to the leaders of the topic's partitions.
        connections: in this process.
        in_flight: requests that a connection keeps unanswered (closed loop), or does not exceed (open loop).
        record_size: bytes of a record's value.
        seconds: of the run, warm-up included; longer only where a window takes longer.
        warmup_s: at the beginning, not counted.
        topic: created where it is missing.
        partitions: that it is created with, and of which so many are used.
        timeout_s: for preparing, and again for the answers that are missing at the end.
        rate_per_s: requests a second of all connections of all processes together, as an open loop; None: a closed
            loop.
        arrivals: of an open loop.
        hang_up_s: so long after its last moment an open loop leaves, whatever is not answered; None: it waits for all.
        think_s: how long a closed loop waits after an answer before it sends the next request in its place.
        batch_records: in a request.
        compression: name of a codec.
        keys: distinct keys of records, which decide the partition as Kafka's own partitioner does; 0: no keys, all
            partitions in turn.
        key_skew: exponent of a Zipf distribution over the keys; 0: all alike.
        acks: -1, 0 or 1.
        is_idempotent: every connection is an idempotent producer.
        transaction_requests: produce requests in a transaction, of which each connection has one after the other; 0:
            none.
        read_share: of the requests that read instead of write, 0 to 1.
        read_bytes: that a read asks for.
        seed: of what is drawn.
        security: properties of librdkafka with their values; see `security.read_security`.
        share, shares: which of how many processes this is.
        connections_together: of all processes.
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
        """Refuse what does not go together.

        Raises:
            ClientError: with what to do instead.
        """
        writes_exactly = self.is_idempotent or self.transaction_requests
        is_open = self.rate_per_s is not None
        refusals = (
            (self.hang_up_s is not None and not is_open, "only an open loop hangs up: give a rate"),
            (self.think_s and is_open, "a think time belongs to a closed loop: leave the rate out"),
            (not self.acks and not is_open, "acks=0 is never answered, a closed loop would wait for ever: give a rate"),
            (not self.acks and self.read_share, "reads do not go together with acks=0: leave one out"),
            (writes_exactly and self.acks != ACKS_ALL, "idempotent producers and transactions need acks=all"),
            (self.transaction_requests and self.read_share, "a transaction only writes: leave the read share out"),
            (self.transaction_requests and is_open, "transactions run in a closed loop: leave the rate out"),
            (self.transaction_requests and self.think_s, "transactions have no think time: leave it out"),
            (self.key_skew and not self.keys, "a skew of keys needs keys"),
            (
                self.batch_records * self.record_size > BATCH_BYTES_MAX,
                f"a batch of more than {BATCH_BYTES_MAX} bytes is refused by every broker",
            ),
        )
        for is_wrong, sentence in refusals:
            if is_wrong:
                raise ClientError(sentence)
