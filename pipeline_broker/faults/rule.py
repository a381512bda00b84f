"""A fault rule: its condition, the choice of matches that it strikes, and its counts."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import attrs

from pipeline_broker.faults.names import FaultError, api_keys, choice, names_groups
from pipeline_broker.faults.values import chance, text, whole_number

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
"""The file operations that a rule can be about."""
# The segments that acknowledgements wait for. The spare segment, which is prepared in advance, has another name.
JOURNAL = "*/journal/*.segment"
STORE_OPERATIONS: Mapping[str, frozenset[str]] = {
    "put": frozenset({"create", "replace", "upload"}),
    "get": frozenset({"read", "read_end"}),
    **{name: frozenset({name}) for name in ("create", "replace", "upload", "list", "delete")},
}
"""The store requests that a rule can be about, with the operations that each stands for."""
SEED_MAX = 2**32 - 1

Origin: TypeAlias = Literal["file", "command line", "Python", "dashboard", "control"]


def _api_name(name: str) -> str:
    return api_keys(name)[0]


def _operation(name: str) -> str:
    return choice("operation", name, OPERATIONS)


def _store_operation(name: str) -> str:
    return choice("store request", name, STORE_OPERATIONS)


def _shown(value: object) -> str:
    text = str(value)
    # Topic and group names come from clients: escape line breaks, invisible characters and changes of direction.
    return text if text.isprintable() else ascii(text)


def _value(name: str, convert: Callable[[str, Any], Any], default: object = None) -> Any:
    return attrs.field(default=default, converter=lambda value: value if value is default else convert(name, value))


@attrs.frozen(kw_only=True)
class Choice:
    """The matches that a rule strikes.

    Args:
        nth: only this match, counted from 1.
        every: every `every`-th match.
        p: each match with this probability, above 0 and at most 1.
        times: at most this many matches.
        seed: seed of the random generator of `p`, 0 to 2**32 - 1; None for a random seed.

    Raises:
        FaultError: a value is out of range, or two contradict each other.
    """

    nth: int | None = _value("nth", whole_number)
    every: int | None = _value("every", whole_number)
    p: float | None = _value("p", chance)
    times: int | None = _value("times", whole_number)
    seed: int | None = _value("seed", whole_number)

    def __attrs_post_init__(self) -> None:
        for name in ("nth", "every", "times"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise FaultError(f"{name} must be at least 1, not {value}")
        if self.nth is not None and (self.every is not None or self.times is not None):
            raise FaultError("nth selects a single request; remove every and times")
        if self.p is not None and not 0 < self.p <= 1:
            raise FaultError(f"p must be above 0 and at most 1, not {self.p:g}")
        if self.seed is not None and self.p is None:
            raise FaultError("seed has an effect only with p; add p or remove seed")
        if self.seed is not None and not 0 <= self.seed <= SEED_MAX:
            raise FaultError(f"seed must be from 0 to {SEED_MAX}")

    @property
    def is_deterministic(self) -> bool:
        """True if the same requests in the same order give the same faults."""
        return self.p is None or self.p == 1 or self.seed is not None


class Names(Protocol):
    # The names in a request: of groups, and of topics with partition numbers.
    @property
    def groups(self) -> Collection[str]: ...

    @property
    def partitions(self) -> Collection[tuple[str, int]]: ...


@attrs.frozen(kw_only=True)
class RequestCondition:
    """The requests that a rule is about; None matches everything.

    Args:
        api: Kafka's name of the request, such as "Produce", or a coordinator's (see COORDINATORS).
        topic: a topic that the request names, or of a fetch, that its session contains.
        partition: a partition of `topic`, or without `topic`, of any topic.
        group: a group that the request names.

    Raises:
        FaultError: the API is unknown, or names no groups, so that `group` would never match.
    """

    api: str = attrs.field(converter=_api_name)
    topic: str | None = _value("topic", text)
    partition: int | None = _value("partition", whole_number)
    client_id: str | None = _value("client_id", text)
    group: str | None = _value("group", text)
    keys: frozenset[int] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "keys", api_keys(self.api)[1])
        if self.group is not None and not any(map(names_groups, self.keys)):
            error = FaultError(f"requests of {self.api} name no group, so group would never match; remove group")
            error.key = "group"
            raise error

    def matches(self, subject: Subject) -> bool:
        """Return whether a request matches. The request is decoded only if the header does not decide."""
        if subject.api not in self.keys or self.client_id not in (None, subject.client_id):
            return False
        return self.matches_names(subject)

    def matches_names(self, names: Names) -> bool:
        if self.group is not None and self.group not in names.groups:
            return False
        if self.topic is None and self.partition is None:
            return True
        return any(
            self.topic in (None, topic) and self.partition in (None, number) for topic, number in names.partitions
        )

    def __str__(self) -> str:
        names = ("topic", "partition", "client_id", "group")
        said = [f"{name}={_shown(getattr(self, name))}" for name in names if getattr(self, name) is not None]
        return " ".join([self.api, *said])


@attrs.frozen(kw_only=True)
class DiskCondition:
    """The file operations that a rule is about.

    Args:
        disk: one of OPERATIONS.
        path: a shell pattern for the whole path. The default matches the journal's segments.

    Raises:
        FaultError: the operation is unknown.
    """

    disk: str = attrs.field(converter=_operation)
    path: str = _value("path", text, JOURNAL)

    def matches(self, operation: str, path: str) -> bool:
        return operation == self.disk and fnmatchcase(path, self.path)

    def __str__(self) -> str:
        return f"disk {self.disk}" + ("" if self.path == JOURNAL else f" path={_shown(self.path)}")


@attrs.frozen(kw_only=True)
class StoreCondition:
    """The requests to the object store that a rule is about.

    Args:
        store: one of STORE_OPERATIONS.
        name: a shell pattern for the whole name of the object, or for the prefix of a `list`. The default matches all.

    Raises:
        FaultError: the request is unknown.
    """

    store: str = attrs.field(converter=_store_operation)
    name: str = _value("name", text, "*")

    def matches(self, operation: str, name: str) -> bool:
        return operation in STORE_OPERATIONS[self.store] and fnmatchcase(name, self.name)

    def __str__(self) -> str:
        return f"store {self.store}" + ("" if self.name == "*" else f" name={_shown(self.name)}")


Condition: TypeAlias = RequestCondition | DiskCondition | StoreCondition


class Rule:
    """A fault rule of a broker, with its counts.

    Args:
        number: identifies the rule; a broker never reuses it.
        condition: the requests or operations that the rule is about.
        choice: selects the matches that the rule strikes.
        effect: applied to a struck request or operation.
        origin: source of the rule.

    Attributes:
        seed: seed of the generator of `p`, given or random; None without `p`.
        matched: the number of matching requests or operations so far.
        hits: the number of struck ones.
        is_removed: whether the rule was removed.
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
        self._generator = random.Random(self.seed)  # noqa: S311 - repeatable, not secret
        self.matched = 0
        self.hits = 0
        self.is_removed = False

    def strikes(self) -> bool:
        """Count a match; return whether the rule strikes it, which counts as a hit."""
        self.matched += 1
        choice = self.choice
        # Draw for every match, so that other choices do not shift the sequence of a seed.
        is_drawn = choice.p is None or self._generator.random() < choice.p
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
        """The choice as text, with the seed if it is random; empty if every match is struck."""
        said = [f"{name}={value}" for name, value in attrs.asdict(self.choice).items() if value is not None]
        if self.seed is not None and self.choice.seed is None:
            said.append(f"seed={self.seed} (drawn)")
        return " ".join(said)

    def __str__(self) -> str:
        return f"{self.condition} {self.chosen}".rstrip() + f": {self.effect}"
