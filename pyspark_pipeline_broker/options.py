"""The options of a read: those of Spark's Kafka source, and `path` or `store` instead of its servers.

Rules of this file: no Spark. What is not known is refused, so that no option is without effect in silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import attrs

from pipeline_broker.inspect.stored_place import StoredPlace
from pipeline_broker.log.archive.archive_place import ArchivePlace
from pyspark_pipeline_broker.position import EARLIEST, LATEST, Position, offsets_of

__all__ = ["ReadOptions"]

PATH, STORE, NODE = "path", "store", "nodeId"
TOPICS = ("assign", "subscribe", "subscribePattern")
"""Exactly one of them says which topics."""
STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
"""The first one that is given counts, as in the Kafka source."""
STRATEGY = "startingOffsetsByTimestampStrategy"
DATA_LOSS = "failOnDataLoss"
HEADERS = "includeHeaders"
ISOLATION = "kafka.isolation.level"
KNOWN = (PATH, STORE, NODE, *TOPICS, *STARTS, *ENDS, STRATEGY, DATA_LOSS, HEADERS, ISOLATION)
WHAT_TOPICS = "say which topics with one of assign, subscribe and subscribePattern"

T = TypeVar("T")


@attrs.frozen
class ReadOptions:
    """See the rules of the file.

    Attributes:
        stored: the broker's data directory, or its store.
        topics: which are named; None where a pattern says which.
        wants: whether a topic is meant.
        partitions: those that are meant; None for all.
        starting, ending: where reading begins and ends.
        is_committed: leave out records of transactions that were aborted, or have not ended.
        skips_gone: records that are not there any more are no error.
        with_headers: headers are a column.
    """

    stored: StoredPlace
    topics: tuple[str, ...] | None
    wants: Callable[[str], bool]
    partitions: frozenset[tuple[str, int]] | None
    starting: Position
    ending: Position
    is_committed: bool
    skips_gone: bool
    with_headers: bool

    @classmethod
    def read(cls, options: Mapping[str, str], *, is_streaming: bool = False) -> ReadOptions:
        """Read them; raises ValueError with one line."""
        given = {name.lower(): text for name, text in options.items()}
        known = {name.lower(): name for name in KNOWN}
        if unknown := sorted(given.keys() - known.keys()):
            raise ValueError(f"unknown options: {', '.join(unknown)}; there are {', '.join(KNOWN)}")
        said = {known[name]: text for name, text in given.items()}
        if is_streaming and (ends := [name for name in ENDS if name in said]):
            raise ValueError(f"a stream has no end: {', '.join(ends)}")
        topics, wants, partitions = _topics(said)
        level = _choice(said, ISOLATION, {"read_committed": True, "read_uncommitted": False}, "read_committed")
        is_strict = _choice(said, STRATEGY, {"error": True, "latest": False}, "error")
        starting = _position(said, STARTS, LATEST if is_streaming else EARLIEST)
        return cls(
            stored=_stored(said),
            topics=topics,
            wants=wants,
            partitions=partitions,
            starting=attrs.evolve(starting, else_latest=not is_strict),
            ending=_position(said, ENDS, LATEST),
            is_committed=level,
            skips_gone=not _choice(said, DATA_LOSS, {"true": True, "false": False}, "true"),
            with_headers=_choice(said, HEADERS, {"true": True, "false": False}, "false"),
        )


def _stored(said: Mapping[str, str]) -> StoredPlace:
    if STORE not in said:
        if NODE in said:
            raise ValueError(f"{NODE} is that of a broker whose {STORE} is given")
        return _directory(said)
    if PATH in said:
        raise ValueError(f"a data directory names its store: give {PATH} or {STORE}")
    node = said.get(NODE, "1").strip()
    if not node.isdecimal():
        raise ValueError(f"{NODE} is the node.id of a broker, not {said[NODE]!r}")
    return ArchivePlace(said[STORE].strip(), int(node), "objects")


def _directory(said: Mapping[str, str]) -> Path:
    if not said.get(PATH):
        raise ValueError("path is missing: the data directory of a broker; or store, the address of its store")
    parts = urlsplit(said[PATH])
    if parts.scheme not in {"", "file"} or parts.netloc:
        raise ValueError(f"path is no directory that is mounted here: {said[PATH]}")
    return Path(unquote(parts.path) if parts.scheme else said[PATH]).absolute()


def _choice(said: Mapping[str, str], option: str, meanings: Mapping[str, T], default: str) -> T:
    text = said.get(option, default)
    try:
        return meanings[text.strip().lower()]
    except KeyError:
        raise ValueError(f"{option} is {' or '.join(meanings)}, not {text!r}") from None


def _topics(
    said: Mapping[str, str],
) -> tuple[tuple[str, ...] | None, Callable[[str], bool], frozenset[tuple[str, int]] | None]:
    ways = [name for name in TOPICS if name in said]
    if len(ways) != 1:
        raise ValueError(WHAT_TOPICS)
    (way,) = ways
    text = said[way]
    if way == "subscribePattern":
        try:
            pattern = re.compile(text)
        except re.error as error:
            raise ValueError(f"{way} is no regular expression: {error}") from None
        return None, _Matches(pattern), None
    partitions = None
    if way == "assign":
        try:
            partitions = frozenset((topic, int(it)) for topic, numbers in json.loads(text).items() for it in numbers)
        except (AttributeError, TypeError, ValueError):
            raise ValueError(f'{way} is not JSON like {{"topic": [0, 1]}}: {text}') from None
        names = sorted({topic for topic, _ in partitions})
    else:
        names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ValueError(f"{way} names no topic")
    return tuple(names), frozenset(names).__contains__, partitions


@attrs.frozen
class _Matches:
    """Whether a whole name matches; a value, because options are sent to other processes."""

    pattern: re.Pattern[str]

    def __call__(self, name: str) -> bool:
        return self.pattern.fullmatch(name) is not None


def _position(said: Mapping[str, str], names: tuple[str, str, str], default: int) -> Position:
    for_all, by_time, by_offset = names
    if for_all in said:
        try:
            return Position(times_ms=int(said[for_all]))
        except ValueError:
            raise ValueError(f"{for_all} is a number of milliseconds, not {said[for_all]!r}") from None
    if by_time in said:
        return Position(times_ms=offsets_of(by_time, said[by_time]))
    return Position.read(by_offset, said[by_offset]) if by_offset in said else Position(default)
