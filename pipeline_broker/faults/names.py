"""Names that rules are made of, checked when a rule is made.

Rules of this room: synchronous, sans-IO, time passed in. A rule says when, an effect says what; who carries an effect
out stands outside (`apis/faulty_requests.py`, `disk.py`). Whatever is wrong with a rule is one FaultError with one
line that names what there is.
"""

from __future__ import annotations

from collections.abc import Collection

from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.registry import API_KEYS, ApiKey

__all__ = ["COORDINATORS", "FaultError", "api_keys", "choice", "error_code", "system_error"]

NEAREST_MAX = 3
"""Names that begin as the wrong one does and are offered in its place."""
LISTED_MAX = 12
"""Names that one line lists; of more only the nearest are named."""

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
"""Names that stand for all that members and producers ask their coordinator, once FindCoordinator has named it."""

_BY_NAME = {api.name: frozenset({int(api.key)}) for api in API_KEYS.values() if api.versions}


class FaultError(ValueError):
    """A rule cannot be made, or there is none of that number; the text is one line.

    Attributes:
        key: of the rule as it is written, where one is to blame.
    """

    key: str | None = None


def choice(kind: str, name: str, names: Collection[str]) -> str:
    """A name as it is written among `names`, whatever its case.

    Args:
        kind: what it is a name of, for the error.
        name: as it was given.
        names: those that there are.

    Raises:
        FaultError: it is none of them.
    """
    import difflib  # noqa: PLC0415 - for wrong names only

    folded = {each.casefold(): each for each in names}
    found = folded.get(name.casefold())
    if found is not None:
        return found
    nearest = [each for each in folded if each.startswith(name.casefold())][:NEAREST_MAX] if name else []
    nearest = nearest or difflib.get_close_matches(name.casefold(), folded, 1)
    hint = f"; did you mean {' or '.join(folded[each] for each in nearest)}?" if nearest else ""
    if not nearest or len(names) <= LISTED_MAX:
        hint += f"; there are {', '.join(sorted(names))}"
    raise FaultError(f"there is no {kind} {name!r}{hint}")


def api_keys(name: str) -> tuple[str, frozenset[int]]:
    """The name of an API, or of a coordinator, as Kafka writes it, with the keys that it stands for.

    Raises:
        FaultError: there is none of this name.
    """
    found = choice("API", name, [*_BY_NAME, *COORDINATORS])
    return found, COORDINATORS.get(found) or _BY_NAME[found]


def error_code(name: str) -> ErrorCode:
    """An error by Kafka's name.

    Raises:
        FaultError: there is none of this name, or it is none.
    """
    return ErrorCode[choice("error", name, [code.name for code in ErrorCode if code is not ErrorCode.NONE])]


def system_error(name: str) -> int:
    """The number of an error of the system, such as EIO.

    Raises:
        FaultError: there is none of this name.
    """
    import errno  # noqa: PLC0415 - for rules about files only

    number: int = getattr(errno, choice("error of the system", name, list(errno.errorcode.values())))
    return number
