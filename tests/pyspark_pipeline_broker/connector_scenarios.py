"""Reads of the same topics with this source and with Spark's Kafka connector: options and allowed differences."""

from __future__ import annotations

import itertools
import json
import random

import attrs

TOPICS = {"orders": 2, "orders-eu": 1, "bills": 1, "empty": 1, "cut": 1}
"""Partitions of each."""
RECORDS = 12
"""Records per partition, with timestamps 1,000 ms apart, starting at FIRST_MS."""
FIRST_MS = 1_700_000_000_000
CUT_AT = 5
"""The records of `cut` before this offset are deleted."""
SEED = 20261129


@attrs.frozen
class Scenario:
    """Options of both readers.

    Attributes:
        options: without the path or address.
        difference: the sentence of docs/guides/spark-source.md that allows another result; None if both must agree.
    """

    options: dict[str, str]
    difference: str | None = None


def offsets(**by_topic: object) -> str:
    return json.dumps({name.replace("_", "-"): numbers for name, numbers in by_topic.items()})


CHOICES = [
    {"subscribe": "orders"},
    {"subscribe": " orders , bills,"},
    {"subscribe": "orders,orders"},
    {"subscribe": "missing"},
    {"subscribe": ""},
    {"subscribe": "orders", "assign": '{"orders": [0]}'},
    {},
    {"assign": '{"orders": [1]}'},
    {"assign": '{"orders": [0, 1], "bills": [0]}'},
    {"assign": '{"orders": [7]}'},
    {"assign": '{"orders": "01"}'},
    {"assign": '{"orders": [true]}'},
    {"assign": '["orders"]'},
    {"assign": "{}"},
    {"subscribePattern": "orders"},
    {"subscribePattern": "^orders$"},
    {"subscribePattern": ".*"},
    {"subscribePattern": "^[a-c&&[^a]].*"},
    {"subscribePattern": r"\Qorders-\E"},
    {"subscribePattern": r"^\p{Lower}+$"},
    {"subscribePattern": "^(?<n>o)r"},
    {"subscribePattern": "o(?i)RDERS$"},
    {"subscribePattern": "nothing"},
    {"subscribePattern": "("},
    {"subscribePattern": ""},
    {"subscribe": "empty"},
    {"subscribe": "cut"},
]
STARTS = [
    {},
    {"startingOffsets": "earliest"},
    {"startingOffsets": " EARLIEST "},
    {"startingOffsets": "latest"},
    {"startingOffsets": "first"},
    {"startingOffsets": offsets(orders={"0": 3, "1": 0})},
    {"startingOffsets": offsets(orders={"0": -2, "1": 12})},
    {"startingOffsets": offsets(orders={"0": -1, "1": 0})},
    {"startingOffsets": offsets(orders={"0": 3})},
    {"startingOffsets": offsets(orders={"0": 3, "1": 0, "2": 0})},
    {"startingOffsets": offsets(orders={"0": 99, "1": 0})},
    {"startingOffsets": offsets(orders={"0": "3", "1": 0})},
    {"startingOffsets": offsets(orders={"0": True, "1": 0})},
    {"startingTimestamp": str(FIRST_MS + 3000)},
    {"startingTimestamp": f" {FIRST_MS} "},
    {"startingTimestamp": "0"},
    {"startingTimestamp": "1_000"},
    {"startingTimestamp": str(FIRST_MS * 2)},
    {"startingTimestamp": str(FIRST_MS * 2), "startingOffsetsByTimestampStrategy": "latest"},
    {"startingTimestamp": "-1"},
    {"startingOffsetsByTimestamp": offsets(orders={"0": FIRST_MS + 2500, "1": 0})},
    {"startingOffsetsByTimestamp": offsets(orders={"0": FIRST_MS})},
    {"startingOffsetsByTimestamp": offsets(orders={"0": FIRST_MS, "1": FIRST_MS}), "startingOffsets": "latest"},
]
ENDS = [
    {},
    {"endingOffsets": "latest"},
    {"endingOffsets": "earliest"},
    {"endingOffsets": offsets(orders={"0": 4, "1": 12})},
    {"endingOffsets": offsets(orders={"0": -1, "1": 1})},
    {"endingOffsets": offsets(orders={"0": -2, "1": 1})},
    {"endingOffsets": offsets(orders={"0": 4})},
    {"endingTimestamp": str(FIRST_MS + 6000)},
    {"endingTimestamp": str(FIRST_MS * 2)},
    {"endingOffsetsByTimestamp": offsets(orders={"0": FIRST_MS + 1000, "1": FIRST_MS + 1000})},
]
OTHERS = [{}, {"includeHeaders": "true"}, {"kafka.isolation.level": "read_uncommitted"}, {"failOnDataLoss": "false"}]


def scenarios() -> list[Scenario]:
    """Return every choice alone, every start with every end, and each with random other options."""
    chance = random.Random(SEED)
    pairs = [{**start, **end} for start, end in itertools.product(STARTS, ENDS)]
    every = [{**choice, **chance.choice(OTHERS)} for choice in CHOICES]
    every += [{"subscribe": "orders", **pair, **chance.choice(OTHERS)} for pair in pairs]
    every += [{"subscribe": "cut", "startingOffsets": offsets(cut={"0": start})} for start in (0, CUT_AT, RECORDS)]
    return [Scenario({"kafka.isolation.level": "read_committed", **options}, difference(options)) for options in every]


def difference(options: dict[str, str]) -> str | None:
    """Return the documented difference that these options may show."""
    text = options.get("startingOffsets", "")
    if options.get("failOnDataLoss") == "false" and "99" in text:
        return "With `failOnDataLoss=false`, an offset outside the log moves to the nearest one that exists."
    if options.get("assign") in {"{}", '{"orders": [7]}'}:
        return "An `assign` without partitions, or with one that does not exist, is an error."
    return None
