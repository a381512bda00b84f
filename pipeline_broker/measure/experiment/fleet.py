"""The running brokers of an experiment: started for each group of runs, numbered, and stopped.

Each group starts new brokers of this project. Other brokers live as long as the experiment, because Apache
Kafka takes many seconds until its rate has settled. Processes are numbered in the order of their starts, so traces
show which runs shared a process.
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
class BrokerDefaults:
    """The common settings of all brokers of an experiment.

    Attributes:
        flush, commits_in_flight: used by brokers whose cell does not vary them.
        against: host and port of a running broker, which is driven beside ours.
        store: object store with journals and archives; None keeps them on the disk.
    """

    flush: str = "always"
    commits_in_flight: int = COMMITS_IN_FLIGHT_MAX
    against: tuple[str, int] | None = None
    store: ComparedStore | None = None

    @property
    def properties(self) -> dict[str, str]:
        """Broker properties in addition to those of the mode; those of a cell override them."""
        return {} if self.store is None else dict(PROPERTIES)


@attrs.frozen(slots=True)
class BrokerStarts:
    """A function that returns the start of a side's broker for a group.

    Attributes:
        how: the common settings.
        scratch: folder for the brokers' data.
        raw: folder for the traces of traced runs.
    """

    how: BrokerDefaults
    scratch: Path
    raw: RawFolder

    def __call__(self, side: Side, group: Group) -> BrokerStart:
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
            brokers=group.broker.brokers,
            properties=tuple({**self.how.properties, **dict(group.broker.properties)}.items()),
        )

    def _trace_of(self, side: Side, group: Group) -> Path | None:
        for run in group.runs:
            if run.side == side and run.traced:
                return self.raw.run(run.number)
            if run.side == side and run.cell.client == COMMAND:
                # The requests of a user's command are counted in a trace, which is not part of the results.
                return self.scratch / f"trace-{run.number}"
        return None


@attrs.frozen(slots=True)
class NumberedBroker:
    broker: RunningBroker
    process: int


class Fleet:
    """The brokers that run now.

    Args:
        start_of: returns the start of the broker of a side for a group.
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
        """Replace our brokers by those of a group, and start other brokers that do not run yet.

        Returns:
            the brokers by side, all ready, and the sides whose broker is new.

        Raises:
            ExperimentError: a broker did not start, or a previous one did not end cleanly.
        """
        ours = [side for side in group.sides if is_ours(side)]
        found = self._numbered(ours, self._ours.replace([self._start_of(side, group) for side in ours]))
        others = [side for side in group.sides if not is_ours(side)]
        fresh = [side for side in others if side not in self._living]
        self._living |= self._numbered(fresh, self._others.add([self._start_of(side, group) for side in fresh]))
        return found | {side: self._living[side] for side in others}, [*ours, *fresh]

    def _numbered(self, sides: list[Side], brokers: list[RunningBroker]) -> dict[Side, NumberedBroker]:
        return {side: NumberedBroker(it, next(self._numbers)) for side, it in zip(sides, brokers, strict=True)}


def is_ours(side: Side) -> bool:
    return side.mode not in (*KAFKA_MODES, OTHER_BROKER)
