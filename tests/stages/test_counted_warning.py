"""A warning counts what it does not say, and says nothing where nothing has happened."""

import logging

from stages.counted_warning import LOG_SECONDS, CountedWarning


def test_it_is_said_at_once_then_once_a_while_with_all_that_happened_meanwhile(caplog):
    warning = CountedWarning(logging.getLogger(__name__), "%d happened")
    said = []
    for count, now in ((0, 0.0), (2, 1.0), (3, 2.0), (0, 1.0 + LOG_SECONDS - 0.1), (1, 1.0 + LOG_SECONDS), (0, 999.0)):
        caplog.clear()
        warning.add(count, now)
        said.append(caplog.messages)
    assert said == [[], ["2 happened"], [], [], ["4 happened"], []]
