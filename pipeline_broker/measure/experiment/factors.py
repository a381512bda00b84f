"""What a cell of an experiment varies beside its mode, its connections and their window.

Rules of this file: data only, and the words for it. An ordinary experiment varies nothing of this.
"""

import attrs

from pipeline_broker.config.properties import property_text

RECORD_BYTES = 100


@attrs.frozen(slots=True)
class BrokerFactors:
    """How the brokers of all sides are started beside their mode.

    Attributes:
        flush: `always` or `os`; None: as the whole experiment.
        commits_in_flight: group commits that may run at once; None: as the whole experiment.
        properties: of the broker, by name; they go over those of the mode.
    """

    flush: str | None = None
    commits_in_flight: int | None = None
    properties: tuple[tuple[str, str], ...] = ()


@attrs.frozen(slots=True)
class RequestFactors:
    """What the requests of the raw client hold; the names are those of `LoadOptions`."""

    record_size: int = RECORD_BYTES
    batch_records: int = 1
    compression: str = "none"
    keys: int = 0
    is_idempotent: bool = False
    transaction_requests: int = 0
    read_share: float = 0.0


@attrs.frozen(slots=True)
class Offer:
    """What an open loop sends, whatever is answered: a rate, or a share of a capacity.

    Attributes:
        per_s: requests a second; None: the share decides.
        share: of the capacity of `of` under the same load; 0.5 is half of it.
        of: a mode that the same experiment drives in a closed loop.
    """

    per_s: float | None = None
    share: float = 0.0
    of: str = ""

    @property
    def word(self) -> str:
        """What a person calls it: `2000`, `50%-of-classic`."""
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
"""What a person calls a factor of the requests, by its attribute."""


def variant(broker: BrokerFactors, requests: RequestFactors, offer: Offer | None = None) -> str:
    """What sets a cell apart from others of the same mode and load, in words: `batch=10 pipeline.queues=0`; else empty.

    Only what differs from an ordinary experiment is in it. No word has a blank.
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
    if offer is not None:
        parts["rate"] = offer.word
    parts.update(broker.properties)
    return " ".join(f"{name}={value}" for name, value in sorted(parts.items()))
