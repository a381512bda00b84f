"""The read options: those of Spark's Kafka source, with `path` or `store` instead of bootstrap servers.

Unknown options are errors, so that no option is ignored silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

import attrs

from pipeline_broker.inspect.stored_place import StoredPlace
from pipeline_broker.log.archive.local.archive_place import ArchivePlace
from pyspark_pipeline_broker.numbers_by_partition import whole_number
from pyspark_pipeline_broker.option import Option
from pyspark_pipeline_broker.position import EARLIEST, LATEST, Position
from pyspark_pipeline_broker.topic_choice import TopicChoice

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
OPTIONS: Final = {
    PATH: Option("", 'the data directory, as in `load("data")`'),
    STORE: Option(
        "",
        "instead of `path`: the store with journal and archive (`serve --wal objects`), such as `s3://BUCKET/PREFIX`",
    ),
    NODE: Option("1", "with `store`: the `node.id` of the broker"),
    "subscribe": Option("", "topic names"),
    "subscribePattern": Option(
        "",
        "a regular expression in Java's syntax. It may match any part of a name, and never matches internal topics",
    ),
    "assign": Option("", 'partitions: `{"events": [0, 1]}`'),
    "startingOffsets": Option(
        "earliest, for a stream latest",
        '`earliest`, `latest`, or an offset for every partition: `{"events": {"0": 23, "1": -2}}`; -2 is '
        "the earliest, -1 the latest",
    ),
    "endingOffsets": Option("latest", "the same as `startingOffsets`, for batches only"),
    "startingTimestamp": Option("", "start at the first record at or after this time in milliseconds"),
    "endingTimestamp": Option("", "end before the first record at or after this time in milliseconds"),
    "startingOffsetsByTimestamp": Option("", 'a time for every partition: `{"events": {"0": 1767225600000}}`'),
    "endingOffsetsByTimestamp": Option("", "the same for the end"),
    STRATEGY: Option("error", "`latest`: start at the end of a partition without a record at or after the time"),
    HEADERS: Option("false", "add the column `headers`"),
    DATA_LOSS: Option("true", "`false`: continue without records that no longer exist"),
    ISOLATION: Option("read_committed", "`read_uncommitted`: include records of open and aborted transactions"),
    OFFSETS_MAX: Option(
        "",
        "the most offsets in one batch of a stream, shared among the partitions by their size. Needs PySpark 4.2",
    ),
    PUSHDOWN: Option("false", "`true`: skip files by the filters of a query"),
}
"""Every option, with its default, and its meaning in Markdown."""
KNOWN = tuple(OPTIONS)
TABLE_OPTION = "option."
TABLE_MARKS = {"provider", "owner"}
"""Properties that Spark adds to the options of every table in its catalog."""
TRUE_OR_FALSE = {"true": True, "false": False}

T = TypeVar("T")


@attrs.frozen
class ReadOptions:
    """Options of a batch or a stream.

    Attributes:
        stored: the broker's data directory, or its object store.
        topics: the topics and partitions to read.
        starting, ending: the start and the end of the read.
        is_committed: skip records of aborted and open transactions.
        skips_gone: continue without records that were deleted.
        with_headers: add the column of headers.
        takes_filters: accept filters from Spark.
        offsets_max: limit of the offsets in one batch of a stream; None for no limit.
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
        """Read the options of a batch or a stream.

        Raises:
            ValueError: an option is unknown, missing or wrong; the message is one line.
        """
        named = _known(options)
        if is_streaming:
            _refuse(named, ENDS, "a stream has no end")
        else:
            _refuse(named, (OFFSETS_MAX,), "a batch reads all records between its offsets")
        is_strict = _choice(named, STRATEGY, {"error": True, "latest": False}, "error")
        starting = Position.read(named, STARTS, LATEST if is_streaming else EARLIEST)
        ending = Position.read(named, ENDS, LATEST)
        if not is_streaming:
            starting.refuse(LATEST, "it would read nothing")
            ending.refuse(EARLIEST, "it would read nothing")
        return cls(
            stored=_stored(named),
            topics=TopicChoice.read(named),
            starting=attrs.evolve(starting, else_latest=not is_strict),
            ending=ending,
            is_committed=_choice(
                named, ISOLATION, {"read_committed": True, "read_uncommitted": False}, "read_committed"
            ),
            skips_gone=not _choice(named, DATA_LOSS, TRUE_OR_FALSE, "true"),
            with_headers=has_headers(options),
            takes_filters=_choice(named, PUSHDOWN, TRUE_OR_FALSE, "false"),
            offsets_max=_positive(named, OFFSETS_MAX),
        )


def has_headers(options: Mapping[str, str]) -> bool:
    """Return whether `includeHeaders` is true.

    Spark requests the schema before it tells the source whether it reads a batch or a stream, so `ReadOptions` does not
    exist yet.

    Raises:
        ValueError: an option is unknown, or `includeHeaders` is neither true nor false.
    """
    return _choice(_known(options), HEADERS, TRUE_OR_FALSE, "false")


def table_options(given: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of a table made by `CREATE TABLE ... USING`, without the properties of Spark's catalog.

    Returns:
        The options under lower-case names, with `path` as a plain path. None if the catalog's properties are missing,
        because a table always has them.
    """
    known = {name.lower(): text for name, text in given.items()}
    if not known.keys() >= TABLE_MARKS:
        return None
    options = {name.removeprefix(TABLE_OPTION): it for name, it in known.items() if name.startswith(TABLE_OPTION)}
    if STORE not in options and (place := known.get(PATH)):
        options[PATH] = re.sub("^file:(//)?(?=/)", "", place)  # the rest is not percent-encoded
    return options


def _known(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options under their documented names, because Spark changes upper and lower case.

    Raises:
        ValueError: an option is unknown.
    """
    given = {name.lower(): text for name, text in options.items()}
    known = {name.lower(): name for name in KNOWN}
    if unknown := sorted(given.keys() - known.keys()):
        raise ValueError(f"unknown options: {', '.join(unknown)}. Known options: {', '.join(KNOWN)}")
    return {known[name]: text for name, text in given.items()}


def _refuse(named: Mapping[str, str], names: tuple[str, ...], reason: str) -> None:
    if given := [name for name in names if name in named]:
        raise ValueError(f"{reason}. Remove {', '.join(given)}")


def _stored(named: Mapping[str, str]) -> StoredPlace:
    if STORE not in named:
        if NODE in named:
            raise ValueError(
                f"{NODE} is set without {STORE}. Set the address of the broker's {STORE}, or remove {NODE}"
            )
        return _directory(named)
    if PATH in named:
        raise ValueError(f"{PATH} and {STORE} are both set, but a data directory names its store. Remove one of them")
    node = named.get(NODE, "1").strip()
    if not node.isdecimal():
        raise ValueError(f"{NODE} is {named[NODE]!r}; it must be the node.id of a broker, such as 1")
    return ArchivePlace(named[STORE].strip(), int(node), "objects")


def _directory(named: Mapping[str, str]) -> Path:
    if not named.get(PATH):
        raise ValueError("path is missing. Set path to a broker's data directory, or store to the address of its store")
    parts = urlsplit(named[PATH])
    if parts.scheme not in {"", "file"} or parts.netloc:
        raise ValueError(f"path is not a directory of this machine: {named[PATH]}. Mount it, or set store")
    return Path(unquote(parts.path) if parts.scheme else named[PATH]).absolute()


def _choice(named: Mapping[str, str], option: str, meanings: Mapping[str, T], default: str) -> T:
    text = named.get(option, default)
    try:
        return meanings[text.strip().lower()]
    except KeyError:
        raise ValueError(f"{option} must be {' or '.join(meanings)}, not {text!r}") from None


def _positive(named: Mapping[str, str], option: str) -> int | None:
    if option not in named:
        return None
    try:
        number = whole_number(named[option])
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    if number <= 0:
        raise ValueError(f"{option} must be at least 1, not {number}")
    return number
