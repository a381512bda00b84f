"""Names of the internal topics that hold the broker's state, as in Kafka."""

__all__ = ["METADATA_TOPIC", "OFFSETS_TOPIC", "SHARE_TOPIC", "TRANSACTIONS_TOPIC"]

METADATA_TOPIC = "__cluster_metadata"
OFFSETS_TOPIC = "__consumer_offsets"
SHARE_TOPIC = "__share_group_state"
TRANSACTIONS_TOPIC = "__transaction_state"
