"""Replication factors in a cluster whose brokers can lead each other's partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pipeline_broker.state.topic_rules import UNSET

__all__ = ["Replication"]


class Replication(NamedTuple):
    """The factors of topics that do not name one.

    Attributes:
        default: as `default.replication.factor`.
        internal: by internal topic. With fewer brokers, such a topic has as many replicas as there are brokers.
    """

    default: int
    internal: Mapping[str, int]

    def factor_of(self, topic: str, wanted: int, brokers: int) -> int:
        if wanted != UNSET:
            return wanted
        internal = self.internal.get(topic)
        return self.default if internal is None else min(internal, brokers)
