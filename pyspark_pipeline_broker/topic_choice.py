"""Which topics and partitions are read: `assign`, `subscribe` or `subscribePattern` of Spark's Kafka source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyspark_pipeline_broker.java_pattern import JavaPattern
from pyspark_pipeline_broker.numbers_by_partition import partitions_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CHOICES", "TopicChoice"]

ASSIGN, SUBSCRIBE, PATTERN = CHOICES = ("assign", "subscribe", "subscribePattern")
"""A read has exactly one of them."""
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""No pattern finds them, as in Kafka's clients; they can be named."""


@attrs.frozen
class TopicChoice:
    """The topics of a read.

    Attributes:
        names: those that are named; None where a pattern says which.
        pattern: is found in the names of topics.
        partitions: the only ones; None for all.
    """

    names: tuple[str, ...] | None
    pattern: JavaPattern | None = None
    partitions: frozenset[tuple[str, int]] | None = None

    @classmethod
    def read(cls, options: Mapping[str, str]) -> TopicChoice:
        """Read the one that is given; raises ValueError."""
        given = [name for name in CHOICES if name in options]
        if len(given) != 1:
            raise ValueError(f"say which topics with one of {', '.join(CHOICES)}")
        (option,) = given
        text = options[option]
        if option == PATTERN:
            if not text.strip():
                raise ValueError(f"{option} is empty")
            try:
                return cls(None, JavaPattern.read(text))
            except ValueError as error:
                raise ValueError(f"{option} is no regular expression of Java: {error}") from None
        partitions = partitions_of(option, text) if option == ASSIGN else None
        names = [name.strip() for name in text.split(",")] if partitions is None else [name for name, _ in partitions]
        found = tuple(sorted({name for name in names if name}))
        if not found:
            raise ValueError(f"{option} names no topic")
        return cls(found, None, partitions)

    def has(self, name: str) -> bool:
        """Whether a topic is read."""
        if self.names is not None:
            return name in self.names
        return name not in INTERNAL_TOPICS and self.pattern is not None and self.pattern.find(name)
