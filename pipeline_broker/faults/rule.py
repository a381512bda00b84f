"""A rule: which requests or operations it is about, which of them it strikes, and what becomes of those.

Rules of this room: see `names.py`. What matches is counted from 1, by each rule for itself, whatever other rules do; of
what matches `nth`, `every`, `p` and `times` choose what is struck. What `p` chooses is drawn from the rule's own
generator, so that the same seed and the same order of requests give the same faults.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from pipeline_broker.faults.names import FaultError, api_keys, choice

if TYPE_CHECKING:
    from pipeline_broker.faults.effects import Effect
    from pipeline_broker.faults.subject import Subject

__all__ = [
    "OPERATIONS",
    "STORE_OPERATIONS",
    "Choice",
    "Condition",
    "DiskCondition",
    "Origin",
    "RequestCondition",
    "Rule",
    "StoreCondition",
]

OPERATIONS = ("sync", "write")
"""What a file is asked for that a rule may be about."""
JOURNAL = "*/journal/*.segment"
"""What an acknowledgement waits for; not the spare that is prepared meanwhile."""
STORE_OPERATIONS: Mapping[str, frozenset[str]] = {
    "put": frozenset({"create", "replace", "upload"}),
    "get": frozenset({"read", "read_end"}),
    **{name: frozenset({name}) for name in ("create", "replace", "upload", "list", "delete")},
}
"""What a store is asked for that a rule may be about, each with the operations that it stands for."""
SEED_MAX = 2**32 - 1

Origin: TypeAlias = Literal["file", "command line", "Python", "dashboard"]
"""Where a rule came from."""


def _api_name(name: str) -> str:
    return api_keys(name)[0]


def _operation(name: str) -> str:
    return choice("operation", name, OPERATIONS)


def _store_operation(name: str) -> str:
    return choice("request to a store", name, STORE_OPERATIONS)


def _shown(value: object) -> str:
    """A value in a line; what cannot be seen, ends the line or turns its direction is escaped."""
    text = str(value)
    return text if text.isprintable() else ascii(text)


@attrs.frozen(kw_only=True)
class Choice:
    """Which of the requests that match are struck.

    Args:
        nth: only this one, counted from 1.
        every: each so many-th.
        p: each with this chance, above 0 and at most 1.
        times: at most so many in all.
        seed: of the generator of `p`; drawn where it is not given.

    Raises:
        FaultError: they are out of range, or contradict each other.
    """

    nth: int | None = None
    every: int | None = None
    p: float | None = None
    times: int | None = None
    seed: int | None = None

    def __attrs_post_init__(self) -> None:
        for name in ("nth", "every", "times"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise FaultError(f"{name} counts from 1, and is {value}")
        if self.nth is not None and (self.every is not None or self.times is not None):
            raise FaultError("nth names one request: every and times make no sense beside it")
        if self.p is not None and not 0 < self.p <= 1:
            raise FaultError(f"p is a chance above 0 and at most 1, not {self.p:g}")
        if self.seed is not None and self.p is None:
            raise FaultError("seed is that of p, which is not given")
        if self.seed is not None and not 0 <= self.seed <= SEED_MAX:
            raise FaultError(f"seed must be from 0 to {SEED_MAX}")

    @property
    def is_deterministic(self) -> bool:
        """Whether the same requests, in the same order, are struck each time."""
        return self.p is None or self.p == 1 or self.seed is not None


@attrs.frozen(kw_only=True)
class RequestCondition:
    """Which requests a rule is about; what is None does not matter.

    Args:
        api: Kafka's name of the request, or that of a coordinator (see COORDINATORS).
        topic: that the request names; of a fetch also one that its session has.
        partition: of that topic, or of any.
        client_id: of the client.
        group: that the request names.

    Raises:
        FaultError: there is no such API.
    """

    api: str = attrs.field(converter=_api_name)
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    group: str | None = None
    keys: frozenset[int] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "keys", api_keys(self.api)[1])

    def matches(self, subject: Subject) -> bool:
        """Whether a request is meant; looks into the request itself last, and only where it must."""
        if subject.api not in self.keys or self.client_id not in (None, subject.client_id):
            return False
        if self.group is not None and self.group not in subject.groups:
            return False
        if self.topic is None and self.partition is None:
            return True
        return subject.names_partition(self.topic, self.partition)

    def __str__(self) -> str:
        names = ("topic", "partition", "client_id", "group")
        said = [f"{name}={_shown(getattr(self, name))}" for name in names if getattr(self, name) is not None]
        return " ".join([self.api, *said])


@attrs.frozen(kw_only=True)
class DiskCondition:
    """Which operations on files a rule is about.

    Args:
        disk: one of OPERATIONS.
        path: a pattern of the shell that the whole path must match; the journal's segments unless given.

    Raises:
        FaultError: there is no such operation.
    """

    disk: str = attrs.field(converter=_operation)
    path: str = JOURNAL

    def matches(self, operation: str, path: str) -> bool:
        """Whether an operation is meant."""
        return operation == self.disk and fnmatchcase(path, self.path)

    def __str__(self) -> str:
        return f"disk {self.disk}" + ("" if self.path == JOURNAL else f" path={_shown(self.path)}")


@attrs.frozen(kw_only=True)
class StoreCondition:
    """Which requests to the store of objects a rule is about.

    Args:
        store: one of STORE_OPERATIONS.
        name: a pattern of the shell that the whole name of the object must match, of `list` the prefix; all unless
            given.

    Raises:
        FaultError: there is no such request.
    """

    store: str = attrs.field(converter=_store_operation)
    name: str = "*"

    def matches(self, operation: str, name: str) -> bool:
        """Whether a request is meant."""
        return operation in STORE_OPERATIONS[self.store] and fnmatchcase(name, self.name)

    def __str__(self) -> str:
        return f"store {self.store}" + ("" if self.name == "*" else f" name={_shown(self.name)}")


Condition: TypeAlias = RequestCondition | DiskCondition | StoreCondition


class Rule:
    """One rule of a broker, with what it did so far.

    Args:
        number: by which it is removed and released; no other rule of the broker ever has it.
        condition: what it is about.
        choice: what of that it strikes.
        effect: what becomes of it.
        origin: where it came from.

    Attributes:
        seed: of the generator of `p`, also where none was given; None without `p`.
        matched: requests or operations that it was about.
        hits: those that it struck.
        is_removed: it does nothing any more.
    """

    def __init__(
        self,
        number: int,
        condition: Condition,
        choice: Choice,
        effect: Effect,
        origin: Origin = "Python",
    ) -> None:
        self.number = number
        self.condition = condition
        self.choice = choice
        self.effect = effect
        self.origin = origin
        self.seed: int | None = None
        if choice.p is not None:
            self.seed = random.SystemRandom().randint(0, SEED_MAX) if choice.seed is None else choice.seed
        self._generator = random.Random(self.seed)  # noqa: S311 - it shall be repeatable
        self.matched = 0
        self.hits = 0
        self.is_removed = False

    def strikes(self) -> bool:
        """Count one more that matches; whether it is struck."""
        self.matched += 1
        choice = self.choice
        is_drawn = choice.p is None or self._generator.random() < choice.p  # drawn for each, so that others do not move
        struck = (
            is_drawn
            and choice.nth in (None, self.matched)
            and (choice.every is None or self.matched % choice.every == 0)
            and (choice.times is None or self.hits < choice.times)
            and not self.is_removed
        )
        self.hits += struck
        return struck

    @property
    def chosen(self) -> str:
        """How often it strikes, as it is written; empty where it strikes all."""
        said = [f"{name}={value}" for name, value in attrs.asdict(self.choice).items() if value is not None]
        if self.seed is not None and self.choice.seed is None:
            said.append(f"seed={self.seed} (drawn)")
        return " ".join(said)

    def __str__(self) -> str:
        return f"{self.condition} {self.chosen}".rstrip() + f": {self.effect}"
