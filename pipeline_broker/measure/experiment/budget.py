"""How long an experiment will take: the estimate before it begins, and what is left of it while it runs.

Rules of this file: arithmetic only. The costs of starting brokers and of what surrounds a run are those of a machine
with two cores; while the experiment runs, its own pace corrects them.
"""

from collections.abc import Iterable, Sequence

import attrs

from pipeline_broker.measure.experiment.modes import KAFKA_MODES, OTHER_BROKER
from pipeline_broker.measure.experiment.plan import RAW, REPLAY, Group, Run

START_S = 0.8
"""Brokers that are started side by side while those before them drain."""
WARM_UP_S = 0.3
OTHER_START_S = 18.0
"""A Java broker, until its rate has settled."""
AROUND_S = 0.15
"""Of a run: connecting, the last answers, writing its rows."""
CLIENTS_AROUND_S = 0.7
"""The same of confluent-kafka, whose producers connect and flush."""
MINUTE_S = 60
_TRUSTED_SHARE = 0.05
"""From this share of the estimate on, the pace so far tells more than the estimate."""


@attrs.frozen(slots=True)
class Costs:
    """What runs of this experiment take.

    Attributes:
        run_s: a run of a closed loop, warm-up included.
        replay_s: a replay.
    """

    run_s: float
    replay_s: float = 0.0

    def of_run(self, run: Run) -> float:
        """Seconds of one run, the start of a broker of its own included where it is traced."""
        if run.cell.client == REPLAY:
            return self.replay_s + AROUND_S
        around = AROUND_S if run.cell.client == RAW else CLIENTS_AROUND_S
        return self.run_s + around + (START_S / 2 if run.traced else 0.0)

    def of_start(self, group: Group) -> float:
        """Seconds until the brokers that a group shares can be measured."""
        if all(run.traced for run in group.runs):
            return 0.0
        others = sum(side.mode in (*KAFKA_MODES, OTHER_BROKER) for side in group.sides)
        return START_S + WARM_UP_S * len(group.sides) + OTHER_START_S * others

    def of(self, groups: Iterable[Group]) -> float:
        """Seconds of all of them."""
        return sum(self.of_start(group) + sum(map(self.of_run, group.runs)) for group in groups if group.runs)


def replay_seconds(times_s: Sequence[int], week_s: float, week_of_events_s: int) -> float:
    """How long events are replayed where a week of them takes `week_s` seconds."""
    return (times_s[-1] - times_s[0]) / week_of_events_s * week_s if times_s else 0.0


@attrs.define
class TimeLeft:
    """What is left of an experiment.

    Attributes:
        total_s: its estimate.
        done_s: the estimate of what is done.
    """

    total_s: float
    done_s: float = 0.0

    def add(self, estimate_s: float) -> None:
        """Something with this estimate is done."""
        self.done_s += estimate_s

    def seconds(self, elapsed_s: float) -> float:
        """The seconds that are left after so many."""
        left_s = max(0.0, self.total_s - self.done_s)
        if self.done_s < self.total_s * _TRUSTED_SHARE or not self.done_s:
            return left_s
        return left_s * elapsed_s / self.done_s


def in_words(seconds: float) -> str:
    """A time for a person: `40 s`, `3 min`, `1 h 05 min`."""
    if seconds < 1.5 * MINUTE_S:
        return f"{max(0, round(seconds))} s"
    minutes = round(seconds / MINUTE_S)
    return f"{minutes} min" if minutes < MINUTE_S else f"{minutes // MINUTE_S} h {minutes % MINUTE_S:02} min"
