"""The estimated duration of an experiment, and its remaining time while it runs.

The constants were measured on a machine with two cores. A running experiment corrects them by its own pace.
"""

from collections.abc import Sequence

import attrs

from pipeline_broker.measure.experiment.modes import KAFKA_MODES, OTHER_BROKER
from pipeline_broker.measure.experiment.runs import COMMAND, READER, REPLAY, Group, Run

START_S = 0.2
"""Start of one broker, beside others and while the previous ones drain."""
WARM_UP_S = 0.15
CONNECT_S = 0.6
"""Connecting all clients of confluent-kafka together."""
FILL_S = 0.25
"""Writing the topic of the readers."""
OTHER_START_S = 18.0
"""Start of a Java broker until its rate has settled."""
AROUND_S = 0.1
"""Overhead of a run: connecting, the last answers, writing its rows."""
COMMAND_GUESSED_S = 10.0
"""Duration of a user's command before its first run."""
OPEN_SAMPLES = 550
"""Requests measured in a run of an open loop, within `OPEN_S_MAX`: enough for five samples above the p99."""
OPEN_S_MAX = 1.5
HANG_UP_S = 0.5
"""Wait for answers after the last intended time of an open loop. A longer latency is not one of the given pace."""
CAPACITY_GUESSED_PER_S = 5_000.0
"""Capacity of a mode before it is measured."""
MINUTE_S = 60
# Share of the estimate after which the pace so far predicts the rest better than the constants.
_TRUSTED_SHARE = 0.05


@attrs.frozen(slots=True)
class Costs:
    """The durations of the runs of an experiment.

    Attributes:
        run_s: a run of a closed loop, warm-up included.
        open_s: minimum of a run of an open loop, warm-up included.
        replay_s: one round of the replay on one side.
    """

    run_s: float
    open_s: float
    replay_s: float = 0.0

    def of_run(self, run: Run) -> float:
        offer = run.cell.offer
        if offer is not None:
            rate_per_s = offer.share * CAPACITY_GUESSED_PER_S if offer.per_s is None else offer.per_s
            return open_seconds(rate_per_s, self.open_s, 0.0) + AROUND_S
        seconds = {REPLAY: self.replay_s, COMMAND: COMMAND_GUESSED_S}.get(run.cell.client, self.run_s)
        return seconds + AROUND_S

    def of_start(self, group: Group, others: int = 0) -> float:
        """Return the estimated seconds until the brokers of a group can be measured.

        Args:
            others: how many of its brokers belong to other projects and do not run yet.
        """
        seconds = (
            OTHER_START_S * others
            + START_S * (1 + len(group.sides) * group.broker.brokers)
            + (0.0 if group.traced else WARM_UP_S * len(group.sides))
        )
        if any(run.cell.client == READER for run in group.runs):
            seconds += FILL_S * len(group.sides)
        return seconds + (CONNECT_S if any(run.cell.uses_confluent for run in group.runs) else 0.0)

    def of(self, groups: Sequence[Group]) -> float:
        """Return the estimated seconds of all groups. Brokers of other projects are started once."""
        others = {side.mode for group in groups for side in group.sides} & {*KAFKA_MODES, OTHER_BROKER}
        runs = sum(self.of_start(group) + sum(map(self.of_run, group.runs)) for group in groups)
        return runs + OTHER_START_S * len(others)


def open_seconds(rate_per_s: float, open_s: float, warmup_s: float) -> float:
    """Return the duration of an open loop, warm-up included; longer for a low rate, to collect enough samples."""
    return max(open_s, min(OPEN_S_MAX, OPEN_SAMPLES / rate_per_s) + warmup_s)


@attrs.define
class TimeLeft:
    """The remaining time of an experiment.

    Attributes:
        total_s: estimated seconds of all its parts.
        done_s: estimated seconds of the finished parts.
    """

    total_s: float
    done_s: float = 0.0

    def add(self, estimate_s: float) -> None:
        self.done_s += estimate_s

    def seconds(self, elapsed_s: float) -> float:
        """Return the remaining seconds, given that the finished parts took `elapsed_s`."""
        left_s = max(0.0, self.total_s - self.done_s)
        if self.done_s < self.total_s * _TRUSTED_SHARE or not self.done_s:
            return left_s
        return left_s * elapsed_s / self.done_s


def in_words(seconds: float) -> str:
    if seconds < 1.5 * MINUTE_S:
        return f"{max(0, round(seconds))} s"
    minutes = round(seconds / MINUTE_S)
    return f"{minutes} min" if minutes < MINUTE_S else f"{minutes // MINUTE_S} h {minutes % MINUTE_S:02} min"
