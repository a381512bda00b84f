"""How long an experiment will take: the estimate before it begins, and what is left of it while it runs.

Rules of this file: arithmetic only. The costs of starting brokers and of what surrounds a run are those of a machine
with two cores; while the experiment runs, its own pace corrects them.
"""

from collections.abc import Sequence

import attrs

from pipeline_broker.measure.experiment.modes import KAFKA_MODES, OTHER_BROKER
from pipeline_broker.measure.experiment.runs import COMMAND, READER, REPLAY, Group, Run

START_S = 0.2
"""A broker, which is started beside others while those before them drain."""
WARM_UP_S = 0.15
CONNECT_S = 0.6
"""All clients of confluent-kafka, together."""
FILL_S = 0.25
"""Time to write the topic of the readers."""
OTHER_START_S = 18.0
"""A Java broker, until its rate has settled."""
AROUND_S = 0.1
"""Of a run: connecting, the last answers, writing its rows."""
COMMAND_GUESSED_S = 10.0
"""Of a client of the user, before it has run."""
OPEN_SAMPLES = 550
"""So many requests are measured in a run of an open loop, if it does not take too long: its p99 wants five beyond."""
OPEN_S_MAX = 1.5
HANG_UP_S = 0.5
"""So long after its last moment an open loop waits for answers; what comes later is no latency of a given pace."""
CAPACITY_GUESSED_PER_S = 5_000.0
"""Of a mode, before it is measured."""
MINUTE_S = 60
_TRUSTED_SHARE = 0.05
"""From this share of the estimate on, the pace so far tells more than the estimate."""


@attrs.frozen(slots=True)
class Costs:
    """What runs of this experiment take.

    Attributes:
        run_s: a run of a closed loop, warm-up included.
        open_s: a run of an open loop at least, so too.
        replay_s: a round of the replay, on one side.
    """

    run_s: float
    open_s: float
    replay_s: float = 0.0

    def of_run(self, run: Run) -> float:
        """Seconds of one run."""
        offer = run.cell.offer
        if offer is not None:
            rate_per_s = offer.share * CAPACITY_GUESSED_PER_S if offer.per_s is None else offer.per_s
            return open_seconds(rate_per_s, self.open_s, 0.0) + AROUND_S
        seconds = {REPLAY: self.replay_s, COMMAND: COMMAND_GUESSED_S}.get(run.cell.client, self.run_s)
        return seconds + AROUND_S

    def of_start(self, group: Group, others: int = 0) -> float:
        """Seconds until the brokers of a group can be measured, of which so many are not ours and do not run yet."""
        seconds = (
            OTHER_START_S * others
            + START_S * (1 + len(group.sides))
            + (0.0 if group.traced else WARM_UP_S * len(group.sides))
        )
        if any(run.cell.client == READER for run in group.runs):
            seconds += FILL_S * len(group.sides)
        return seconds + (CONNECT_S if any(run.cell.uses_confluent for run in group.runs) else 0.0)

    def of(self, groups: Sequence[Group]) -> float:
        """Seconds of all of them, and of brokers that are not ours, which are started once."""
        others = {side.mode for group in groups for side in group.sides} & {*KAFKA_MODES, OTHER_BROKER}
        runs = sum(self.of_start(group) + sum(map(self.of_run, group.runs)) for group in groups)
        return runs + OTHER_START_S * len(others)


def open_seconds(rate_per_s: float, open_s: float, warmup_s: float) -> float:
    """How long an open loop runs, warm-up included: longer where requests are rare."""
    return max(open_s, min(OPEN_S_MAX, OPEN_SAMPLES / rate_per_s) + warmup_s)


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
