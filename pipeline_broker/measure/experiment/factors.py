"""The factors that a cell can vary besides mode, connections and requests in flight."""

import attrs

from pipeline_broker.config.properties import property_text

RECORD_BYTES = 100


@attrs.frozen(slots=True)
class BrokerFactors:
    """Factors of the brokers of all sides.

    Attributes:
        flush: `always` or `os`; None uses the experiment's setting.
        commits_in_flight: group commits that may run at the same time; None uses the experiment's setting.
        brokers: broker processes of a side, a cluster if there is more than one. Apache Kafka is always one process.
        properties: broker properties by name, which override those of the mode.
    """

    flush: str | None = None
    commits_in_flight: int | None = None
    brokers: int = 1
    properties: tuple[tuple[str, str], ...] = ()


@attrs.frozen(slots=True)
class RequestFactors:
    """Factors of the native client's requests, with the names of `LoadOptions`."""

    record_size: int = RECORD_BYTES
    batch_records: int = 1
    compression: str = "none"
    keys: int = 0
    is_idempotent: bool = False
    transaction_requests: int = 0
    read_share: float = 0.0


@attrs.frozen(slots=True)
class Offer:
    """The rate of an open loop: absolute, or as a share of a capacity.

    Attributes:
        per_s: requests per second; None uses the share.
        share: share of the capacity of mode `of` under the same load; 0.5 is half of it.
        of: a mode that the same experiment drives in a closed loop.
    """

    per_s: float | None = None
    share: float = 0.0
    of: str = ""

    @property
    def word(self) -> str:
        return f"{self.share * 100:g}%-of-{self.of}" if self.per_s is None else f"{self.per_s:g}"


ORDINARY_BROKER = BrokerFactors()
ORDINARY_REQUESTS = RequestFactors()
REQUEST_NAMES = {
    "record_size": "record_size",
    "batch_records": "batch",
    "compression": "compression",
    "keys": "keys",
    "is_idempotent": "idempotent",
    "transaction_requests": "transaction",
    "read_share": "read_share",
}
"""The names of request factors in sweeps and tables, by attribute."""


def variant(broker: BrokerFactors, requests: RequestFactors, offer: Offer | None = None) -> str:
    """Return the factors that an ordinary experiment does not vary, such as `batch=10 pipeline.queues=0`.

    The text is empty without such factors. No word in it contains a blank, so that readers can split it.
    """
    parts = {
        name: property_text(getattr(requests, attribute))
        for attribute, name in REQUEST_NAMES.items()
        if getattr(requests, attribute) != getattr(ORDINARY_REQUESTS, attribute)
    }
    if broker.flush is not None:
        parts["flush"] = broker.flush
    if broker.commits_in_flight is not None:
        parts["commits_in_flight"] = str(broker.commits_in_flight)
    if broker.brokers != ORDINARY_BROKER.brokers:
        parts["brokers"] = str(broker.brokers)
    if offer is not None:
        parts["rate"] = offer.word
    parts.update(broker.properties)
    return " ".join(f"{name}={value}" for name, value in sorted(parts.items()))
