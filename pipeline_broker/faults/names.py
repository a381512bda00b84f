"""Names in fault rules: APIs, coordinators, Kafka's errors and system errors."""

from __future__ import annotations

import errno
import re
from collections.abc import Collection

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.registry import API_KEYS, ApiKey, message_classes

__all__ = [
    "COORDINATORS",
    "GROUP_ARRAYS",
    "FaultError",
    "api_keys",
    "choice",
    "error_code",
    "names_groups",
    "system_error",
]

NUMBER = re.compile(r"-?[0-9]{1,9}")
SIMILARITY_MIN = 0.6  # of a suggestion, as in difflib.get_close_matches
NEAREST_MAX = 3  # suggestions with the same beginning
LISTED_MAX = 12  # longer lists are not part of an error

COORDINATORS: dict[str, frozenset[int]] = {
    "GroupCoordinator": frozenset(
        {
            ApiKey.JOIN_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.HEARTBEAT,
            ApiKey.LEAVE_GROUP,
            ApiKey.OFFSET_COMMIT,
            ApiKey.OFFSET_FETCH,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ApiKey.STREAMS_GROUP_HEARTBEAT,
        }
    ),
    "TransactionCoordinator": frozenset(
        {
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.END_TXN,
        }
    ),
}
"""Names for all requests that members and producers send to their coordinator, apart from FindCoordinator."""

GROUP_ARRAYS = frozenset({"groups", "group_ids", "groups_names"})
"""Fields of requests that hold groups."""
_BY_NAME = {api.name: frozenset({int(api.key)}) for api in API_KEYS.values() if api.versions}


class FaultError(ValueError):
    """A rule or command is invalid, or its rule, group or member does not exist. The text is one line.

    Attributes:
        key: the invalid key of the rule; None if the error is not about a single key.
    """

    key: str | None = None


def choice(kind: str, name: object, names: Collection[str]) -> str:
    """Return the entry of `names` that equals `name`, ignoring case.

    Args:
        kind: describes the names in the error.

    Raises:
        FaultError: no entry is equal; the text suggests similar ones.
    """
    if not isinstance(name, str):
        raise FaultError(f"{kind} needs a text, not {name!r}")
    folded = {each.casefold(): each for each in names}
    found = folded.get(name.casefold())
    if found is not None:
        return found
    nearest = [each for each in folded if each.startswith(name.casefold())][:NEAREST_MAX] if name else []
    nearest = nearest or _most_similar(name.casefold(), folded)
    hint = f"; did you mean {' or '.join(folded[each] for each in nearest)}?" if nearest else ""
    if not nearest or len(names) <= LISTED_MAX:
        hint += f"{' Use' if nearest else '; use'} one of {', '.join(sorted(names))}"
    raise FaultError(f"unknown {kind} {name!r}{hint}")


def _most_similar(name: str, names: Collection[str]) -> list[str]:
    import difflib  # noqa: PLC0415 - for wrong names only

    def similarity(other: str) -> tuple[float, int]:
        # The name may be the beginning of another one, with a mistake: NOT_LEADR.
        forms = (other, other[: len(name) + 1])
        ratio = max(difflib.SequenceMatcher(None, form, name).ratio() for form in forms)
        return ratio, -abs(len(other) - len(name))

    best = max(names, key=similarity)
    return [best] if similarity(best)[0] >= SIMILARITY_MIN else []


def api_keys(name: str) -> tuple[str, frozenset[int]]:
    """Return the name of an API or coordinator in Kafka's spelling, and the API keys that it stands for.

    Raises:
        FaultError: the name is unknown.
    """
    found = choice("API", name, [*_BY_NAME, *COORDINATORS])
    return found, COORDINATORS.get(found) or _BY_NAME[found]


def names_groups(api: int) -> bool:
    fields = {field.name for field in attrs.fields(message_classes(api)[0])}
    return api == ApiKey.FIND_COORDINATOR or not fields.isdisjoint(GROUP_ARRAYS | {"group_id"})


def error_code(name: str | int) -> ErrorCode:
    """Return an error by Kafka's name or number.

    Raises:
        FaultError: the name or number is unknown, or that of NONE.
    """
    if (number := _number(name)) is not None:
        if number not in tuple(ErrorCode) or number == ErrorCode.NONE:
            raise FaultError(
                f"unknown error {number}; use a name such as NOT_LEADER_OR_FOLLOWER, or a number of Kafka from"
                f" {min(ErrorCode)} to {max(ErrorCode)} except 0"
            )
        return ErrorCode(number)
    if not isinstance(name, str):
        raise FaultError(f"error needs a name or number of Kafka, such as NOT_LEADER_OR_FOLLOWER or 6, not {name!r}")
    return ErrorCode[choice("error", name, [code.name for code in ErrorCode if code is not ErrorCode.NONE])]


def system_error(name: str | int) -> str:
    """Return the name of a system error, given its name or number.

    Raises:
        FaultError: the name or number is unknown.
    """
    number = _number(name)
    if number is None or number not in errno.errorcode:
        return choice("system error", name if number is None else str(number), list(errno.errorcode.values()))
    return errno.errorcode[number]


def _number(name: object) -> int | None:
    if isinstance(name, int) and not isinstance(name, bool):
        return int(name)
    return int(name) if isinstance(name, str) and NUMBER.fullmatch(name) else None
