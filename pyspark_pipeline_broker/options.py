"""The options of a read: those of Spark's Kafka source, and `path` or `store` instead of its servers.

Unknown options are errors, so that no option is ignored silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import attrs

from pipeline_broker.inspect.stored_place import StoredPlace
from pipeline_broker.log.archive.local.archive_place import ArchivePlace
from pyspark_pipeline_broker.numbers_by_partition import whole_number
from pyspark_pipeline_broker.position import EARLIEST, LATEST, Position
from pyspark_pipeline_broker.topic_choice import CHOICES, TopicChoice

__all__ = ["ReadOptions", "has_headers", "table_options"]

PATH, STORE, NODE = "path", "store", "nodeId"
STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
"""The first of these options that is set wins, as in the Kafka source."""
STRATEGY = "startingOffsetsByTimestampStrategy"
DATA_LOSS = "failOnDataLoss"
HEADERS = "includeHeaders"
ISOLATION = "kafka.isolation.level"
PUSHDOWN = "pushdown"
OFFSETS_MAX = "maxOffsetsPerTrigger"
KNOWN = (PATH, STORE, NODE, *CHOICES, *STARTS, *ENDS, STRATEGY, DATA_LOSS, HEADERS, ISOLATION, PUSHDOWN, OFFSETS_MAX)
TABLE_OPTION = "option."
TABLE_MARKS = {"provider", "owner"}
"""Properties that Spark adds to the options of every table in its catalog."""
TRUE_OR_FALSE = {"true": True, "false": False}

T = TypeVar("T")


@attrs.frozen
class ReadOptions:
    """Options of a batch or a stream.

    Attributes:
        stored: the broker's data directory, or its store.
        topics: the topics and partitions to read.
        starting, ending: both ends of the read.
        is_committed: skip records of aborted and open transactions.
        skips_gone: continue without records that no longer exist.
        with_headers: add the column of headers.
        takes_filters: accept filters from Spark.
        offsets_max: limit of one batch of a stream; None for no limit.
    """

    stored: StoredPlace
    topics: TopicChoice
    starting: Position
    ending: Position
    is_committed: bool
    skips_gone: bool
    with_headers: bool
    takes_filters: bool
    offsets_max: int | None

    @classmethod
    def read(cls, options: Mapping[str, str], *, is_streaming: bool = False) -> ReadOptions:
        """Read the options of a batch or of a stream.

        Raises:
            ValueError: with one line.
        """
        said = _known(options)
        if is_streaming:
            _refuse(said, ENDS, "a stream has no end")
        else:
            _refuse(said, (OFFSETS_MAX,), "a batch reads all between its offsets")
        is_strict = _choice(said, STRATEGY, {"error": True, "latest": False}, "error")
        starting = Position.read(said, STARTS, LATEST if is_streaming else EARLIEST)
        ending = Position.read(said, ENDS, LATEST)
        if not is_streaming:
            starting.refuse(LATEST, "it would read nothing")
            ending.refuse(EARLIEST, "it would read nothing")
        return cls(
            stored=_stored(said),
            topics=TopicChoice.read(said),
            starting=attrs.evolve(starting, else_latest=not is_strict),
            ending=ending,
            is_committed=_choice(
                said, ISOLATION, {"read_committed": True, "read_uncommitted": False}, "read_committed"
            ),
            skips_gone=not _choice(said, DATA_LOSS, TRUE_OR_FALSE, "true"),
            with_headers=has_headers(options),
            takes_filters=_choice(said, PUSHDOWN, TRUE_OR_FALSE, "false"),
            offsets_max=_positive(said, OFFSETS_MAX),
        )


def has_headers(options: Mapping[str, str]) -> bool:
    """Return whether the option for headers is set; raise ValueError for a wrong option.

    Spark asks for the columns before it says whether the options are of a batch or a stream.
    """
    return _choice(_known(options), HEADERS, TRUE_OR_FALSE, "false")


def table_options(given: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of a table made by `CREATE TABLE ... USING`, without the properties of Spark's catalog.

    Returns:
        None if the options are not those of a table.
    """
    known = {name.lower(): text for name, text in given.items()}
    if not known.keys() >= TABLE_MARKS:
        return None
    options = {name.removeprefix(TABLE_OPTION): it for name, it in known.items() if name.startswith(TABLE_OPTION)}
    if STORE not in options and (place := known.get(PATH)):
        options[PATH] = re.sub("^file:(//)?(?=/)", "", place)  # the rest is not percent-encoded
    return options


def _known(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options by their documented names."""
    given = {name.lower(): text for name, text in options.items()}
    known = {name.lower(): name for name in KNOWN}
    if unknown := sorted(given.keys() - known.keys()):
        raise ValueError(f"unknown options: {', '.join(unknown)}; there are {', '.join(KNOWN)}")
    return {known[name]: text for name, text in given.items()}


def _refuse(said: Mapping[str, str], names: tuple[str, ...], reason: str) -> None:
    if given := [name for name in names if name in said]:
        raise ValueError(f"{reason}: {', '.join(given)}")


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


def _positive(said: Mapping[str, str], option: str) -> int | None:
    if option not in said:
        return None
    try:
        number = whole_number(said[option])
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    if number <= 0:
        raise ValueError(f"{option} is at least 1, not {number}")
    return number
