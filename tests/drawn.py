"""How many of the examples that Hypothesis draws are about what a test is about: too few, and the test is blind.

    @measured(conflict=0.2)
    @given(...)
    def test_...(...):
        drawn("conflict", an_example_is_about_one)

Rules: a share is of all examples of a test, those that it leaves early included; what fails for another reason says
that one. Each run prints the shares. `drawn` returns what it counts, so that it can stand in the condition of an early
return.
"""

import functools
import math
from collections import Counter

from hypothesis import settings

__all__ = ["BlindError", "drawn", "measured"]

EXAMPLES_MIN = 20
NONE_IS_BLIND = 2
"""Where so many are expected at least, none at all is no chance: properties draw more than they are asked for."""
"""Of fewer examples no share is asked."""

SETTINGS = "_hypothesis_internal_use_settings"


class BlindError(AssertionError):
    """Too few examples are about what a test is about."""


class _Count:
    """Of one run of a test: its examples, and how many of them are about what."""

    def __init__(self):
        self.examples = 0
        self.about = Counter()
        self._this = set()

    def begin(self):
        self.examples += 1
        self._this.clear()

    def add(self, name, holds):
        """Count the example at hand, once."""
        self.about[name] += holds and name not in self._this
        if holds:
            self._this.add(name)


_current = []


def drawn(name, holds=True):
    """Count an example as one about `name` where that holds; returns whether it does."""
    assert _current, "only a measured test counts what it draws"
    _current[-1].add(name, bool(holds))
    return bool(holds)


def _settings_of(test):
    """Those that somebody wrote: Hypothesis itself gives a parametrized test others, with a health check less."""
    return repr(settings(vars(test).get(SETTINGS, settings.default), suppress_health_check=()))


def _is_blind(found, examples, share_min):
    """Whether there are too few examples about something, by more than chance makes of such a share (three sigma)."""
    if examples < EXAMPLES_MIN:
        return False
    expected = share_min * examples
    return found < expected - 3 * math.sqrt(expected * (1 - share_min)) or (found == 0 and expected >= NONE_IS_BLIND)


def measured(**shares_min):
    """Have a test fail when fewer of its examples than these shares are about the names."""

    def decorate(test):
        _count_examples(test.hypothesis)

        @functools.wraps(test)
        def run(*arguments, **fixtures):
            assert _settings_of(run) == _settings_of(test), "`measured` stands above `settings`"
            count = _Count()
            _current.append(count)
            try:
                test(*arguments, **fixtures)
            finally:
                _current.pop()
            unknown = count.about.keys() - shares_min.keys()
            assert not unknown, f"counted, and no share is asked of it: {sorted(unknown)}"
            found = {name: count.about[name] / max(count.examples, 1) for name in shares_min}
            shares = ", ".join(f"{name} {found[name]:.0%} (at least {shares_min[name]:.0%})" for name in shares_min)
            print(f"\nof {count.examples} examples: {shares}")
            if any(_is_blind(count.about[name], count.examples, share) for name, share in shares_min.items()):
                raise BlindError(f"of {count.examples} examples: {shares}")

        return run

    return decorate


def _count_examples(handle):
    example = handle.inner_test

    @functools.wraps(example)
    def counted(*arguments, **values):
        _current[-1].begin()
        return example(*arguments, **values)

    handle.inner_test = counted
