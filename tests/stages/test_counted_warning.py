"""A warning counts the events that it does not log, and logs nothing without events."""

import logging

from stages.counted_warning import LOG_SECONDS, CountedWarning


def test_the_first_warning_is_immediate_and_later_ones_sum_up(caplog):
    warning = CountedWarning(logging.getLogger(__name__), "%d happened")
    said = []
    for count, now in ((0, 0.0), (2, 1.0), (3, 2.0), (0, 1.0 + LOG_SECONDS - 0.1), (1, 1.0 + LOG_SECONDS), (0, 999.0)):
        caplog.clear()
        warning.add(count, now)
        said.append(caplog.messages)
    assert said == [[], ["2 happened"], [], [], ["4 happened"], []]
