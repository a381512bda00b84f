"""The topics and partitions of a read: `assign`, `subscribe` or `subscribePattern` of Spark's Kafka source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyspark_pipeline_broker.java_pattern import JavaPattern
from pyspark_pipeline_broker.numbers_by_partition import partitions_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CHOICES", "TopicChoice"]

ASSIGN, SUBSCRIBE, PATTERN = CHOICES = ("assign", "subscribe", "subscribePattern")
"""The options that choose topics. A read has exactly one of them."""
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that no pattern matches, as in Kafka's clients. `assign` and `subscribe` can name them."""


@attrs.frozen
class TopicChoice:
    """The topics and partitions of a read.

    Attributes:
        names: the named topics; None with a pattern.
        pattern: matches any part of a topic's name; None with names.
        partitions: the only partitions to read; None for all.
    """

    names: tuple[str, ...] | None
    pattern: JavaPattern | None = None
    partitions: frozenset[tuple[str, int]] | None = None

    @classmethod
    def read(cls, options: Mapping[str, str]) -> TopicChoice:
        """Read the one option that is set; raises ValueError if it is invalid, or if not exactly one is set."""
        given = [name for name in CHOICES if name in options]
        if len(given) != 1:
            problem = f"{', '.join(given)} are set" if given else "no topic option is set"
            raise ValueError(f"{problem}. Set exactly one of {', '.join(CHOICES)}")
        (option,) = given
        text = options[option]
        if option == PATTERN:
            if not text.strip():
                raise ValueError(f"{option} is empty. Set it to a regular expression of Java")
            try:
                return cls(None, JavaPattern.read(text))
            except ValueError as error:
                raise ValueError(f"{option} is not a regular expression of Java: {error}") from None
        partitions = partitions_of(option, text) if option == ASSIGN else None
        names = [name.strip() for name in text.split(",")] if partitions is None else [name for name, _ in partitions]
        found = tuple(sorted({name for name in names if name}))
        if not found:
            raise ValueError(f"{option} names no topic. Add one")
        return cls(found, None, partitions)

    def has(self, name: str) -> bool:
        if self.names is not None:
            return name in self.names
        return name not in INTERNAL_TOPICS and self.pattern is not None and self.pattern.find(name)
