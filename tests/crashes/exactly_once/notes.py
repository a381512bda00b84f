"""What copiers wrote down, as a history for `history_checker.py`.

Rules of this file: a transaction whose copier never asked to commit it did not happen, one that it asked to commit and
was not told of may have. A line without an end was being written when the copier was killed, before it acted on it.
"""

import collections
import json

import attrs

from tests.crashes.exactly_once.copier import INPUT, PARTITIONS
from tests.tools.history_checker import (
    ASSIGN,
    FAILED,
    OK,
    SEND,
    TRANSACTION,
    UNKNOWN,
    Operation,
    Poll,
    Send,
)

INPUTS = frozenset((INPUT, index) for index in range(PARTITIONS))


@attrs.define
class Attempt:
    """One transaction of a copier, as far as it wrote about it."""

    begun: dict
    fate: str = FAILED
    offsets: list = attrs.Factory(list)
    reason: str | None = None


def read_notes(path):
    """The attempts of one copier, in order."""
    attempts = []
    for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else []:
        told = json.loads(line)
        if "begin" in told:
            attempts.append(Attempt(told))
        elif "committing" in told:
            attempts[-1].fate = UNKNOWN
        elif "committed" in told:
            attempts[-1].fate, attempts[-1].offsets = OK, told["offsets"]
        else:
            attempts[-1].fate, attempts[-1].reason = FAILED, told["reason"]
    return attempts


def operations(name, output, attempts):
    """What a copier did: when partitions came or went, its next poll follows nothing."""
    for attempt in attempts:
        rebalanced = INPUTS if attempt.begun["rebalanced"] else frozenset()
        if rebalanced:
            yield Operation(name, ASSIGN)
        polled = collections.defaultdict(list)
        for partition, offset, value in attempt.begun["polled"]:
            polled[INPUT, partition].append((offset, value))
        sent = attempt.begun["sent"]
        offsets = attempt.offsets or [None] * len(sent)
        steps = [
            Send((output, partition), value, offset) for (partition, value), offset in zip(sent, offsets, strict=True)
        ]
        yield Operation(name, TRANSACTION, (Poll(dict(polled)), *steps), attempt.fate, rebalanced=rebalanced)


def written(partition, value, offset):
    """What the writer of the input was told of a value; no offset where it was told nothing."""
    return Operation("writer", SEND, (Send((INPUT, partition), value, offset),), UNKNOWN if offset is None else OK)
