"""Brokers of finished tests, which serve the clients that outlive the tests."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.shown import Usage

if TYPE_CHECKING:
    from pipeline_broker.embedded.embedded_broker import EmbeddedBroker

__all__ = ["RETIRED", "RetiredBrokers", "surplus"]

# A broker has 7 descriptors and 0.3 MB; many systems allow a process 1,024 descriptors.
RETIRED_MAX = 24
RETIRED_BYTES_MAX = 64 << 20


def surplus(usages: Sequence[Usage]) -> set[int]:
    """Return the indexes of the brokers to close, given all retired ones, oldest first.

    Brokers without connections close before others, and older ones before newer ones. The newest stays open, because
    its clients may be reconnecting.
    """
    kept = list(enumerate(usages))
    while len(kept) > 1 and (len(kept) > RETIRED_MAX or sum(usage.size_bytes for _, usage in kept) > RETIRED_BYTES_MAX):
        kept.remove(next((each for each in kept[:-1] if not each[1].connections), kept[0]))
    return set(range(len(usages))) - {index for index, _ in kept}


class RetiredBrokers:
    """Running brokers that no test uses any more.

    A client that loses its broker writes errors to the terminal, even after a run without failures. So a retired broker
    serves until the process ends, within bounds of number and memory.
    """

    def __init__(self) -> None:
        self._brokers: list[EmbeddedBroker] = []

    def add(self, broker: EmbeddedBroker) -> None:
        """Remove the fault rules of a broker and keep it. Close brokers that exceed the bounds."""
        usages: list[tuple[EmbeddedBroker, Usage]] = []
        with contextlib.suppress(EmbeddedBrokerError):
            broker.faults.clear()
        for each in (*self._brokers, broker):
            try:
                usages.append((each, each.usage()))
            except EmbeddedBrokerError:  # its test closed it, its disk failed, or it belongs to the parent of this fork
                each.close()
        closed = surplus([usage for _, usage in usages])
        for index in closed:
            usages[index][0].close()
        self._brokers = [each for index, (each, _) in enumerate(usages) if index not in closed]


RETIRED = RetiredBrokers()
"""The retired brokers of this process."""
