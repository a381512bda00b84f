"""The operations that a client may do, as bits: everybody may do everything until there are access rules."""

from __future__ import annotations

__all__ = ["ALL_OF_CLUSTER", "ALL_OF_TOPIC"]

ALL_OF_TOPIC = 0b1101_1111_1000
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""
ALL_OF_CLUSTER = 0b1_1111_1010_0000
"""CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE."""
