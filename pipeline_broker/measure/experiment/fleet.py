"""The brokers of an experiment.

Rules of this file: ours begin anew with every group of runs and end with it, so that a round is a sample of its own.
What is not ours lives as long as the experiment: Apache Kafka takes many seconds until its rate has settled. Brokers of
one group run side by side and one is driven at a time; whatever happens, they are stopped. Processes are numbered in
the order of their starts, so that a reader of the traces knows which runs shared one.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Self

import attrs

from pipeline_broker.measure.experiment.broker_process import (
    Brokers,
    BrokerSettings,
    BrokerStart,
    FoundBroker,
    RunningBroker,
)
from pipeline_broker.measure.experiment.compared_store import PROPERTIES, ComparedStore
from pipeline_broker.measure.experiment.kafka_process import KafkaSettings
from pipeline_broker.measure.experiment.modes import KAFKA_MODES, OTHER_BROKER
from pipeline_broker.measure.experiment.raw import RawFolder
from pipeline_broker.measure.experiment.runs import COMMAND, Group, Side
from stages.commit_pace import COMMITS_IN_FLIGHT_MAX


@attrs.frozen(slots=True)
class HowBrokersStart:
    """What all brokers of an experiment have in common.

    Attributes:
        flush, commits_in_flight: of brokers whose cell does not say it.
        against: the address of a broker that runs already and is driven beside ours.
        store: that their journals and archives are in; None: each has a disk.
    """

    flush: str = "always"
    commits_in_flight: int = COMMITS_IN_FLIGHT_MAX
    against: tuple[str, int] | None = None
    store: ComparedStore | None = None

    @property
    def properties(self) -> dict[str, str]:
        """Of the brokers, beside those of a mode; what a cell varies goes over them."""
        return {} if self.store is None else dict(PROPERTIES)


@attrs.frozen(slots=True)
class BrokerStarts:
    """How the broker of a side is started for a group.

    Attributes:
        how: what all have in common.
        scratch: a folder for their data.
        raw: where traced ones write.
    """

    how: HowBrokersStart
    scratch: Path
    raw: RawFolder

    def __call__(self, side: Side, group: Group) -> BrokerStart:
        """Not started yet."""
        if side.mode == OTHER_BROKER:
            assert self.how.against is not None
            return FoundBroker(*self.how.against)
        if side.mode in KAFKA_MODES:
            return KafkaSettings(side.mode, self.scratch / side.mode, is_synced=side.mode == KAFKA_MODES[0])
        name, store = f"{group.runs[0].number}-{side.mode}-{side.number}", self.how.store
        return BrokerSettings(
            mode=side.mode,
            data=self.scratch / name,
            commit_delay_ms=group.commit_delay_ms,
            commits_in_flight=group.broker.commits_in_flight or self.how.commits_in_flight,
            flush=group.broker.flush or self.how.flush,
            store="" if store is None else store.address(name),
            store_delay_ms=0.0 if store is None else store.delay_ms,
            trace=self._trace_of(side, group),
            properties=tuple({**self.how.properties, **dict(group.broker.properties)}.items()),
        )

    def _trace_of(self, side: Side, group: Group) -> Path | None:
        """Return the folder of a broker's trace: that of a traced run, or one beside its data for a command."""
        for run in group.runs:
            if run.side == side and run.traced:
                return self.raw.run(run.number)
            if run.side == side and run.cell.client == COMMAND:
                return self.scratch / f"trace-{run.number}"
        return None


@attrs.frozen(slots=True)
class NumberedBroker:
    """A broker, and the number of its process in this experiment."""

    broker: RunningBroker
    process: int


class Fleet:
    """What runs now.

    Args:
        start_of: how the broker of a side is started for a group.
    """

    def __init__(self, start_of: Callable[[Side, Group], BrokerStart]) -> None:
        self._start_of = start_of
        self._ours, self._others = Brokers(), Brokers()
        self._living: dict[Side, NumberedBroker] = {}
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with self._others:
            self._ours.__exit__(*exception)

    def start(self, group: Group) -> tuple[dict[Side, NumberedBroker], list[Side]]:
        """The brokers of a group, ready, in place of those before; and the sides whose broker is new, in its order."""
        ours = [side for side in group.sides if is_ours(side)]
        found = self._numbered(ours, self._ours.replace([self._start_of(side, group) for side in ours]))
        others = [side for side in group.sides if not is_ours(side)]
        fresh = [side for side in others if side not in self._living]
        self._living |= self._numbered(fresh, self._others.add([self._start_of(side, group) for side in fresh]))
        return found | {side: self._living[side] for side in others}, [*ours, *fresh]

    def _numbered(self, sides: list[Side], brokers: list[RunningBroker]) -> dict[Side, NumberedBroker]:
        return {side: NumberedBroker(it, next(self._numbers)) for side, it in zip(sides, brokers, strict=True)}


def is_ours(side: Side) -> bool:
    """Whether a side is a broker of this project."""
    return side.mode not in (*KAFKA_MODES, OTHER_BROKER)
