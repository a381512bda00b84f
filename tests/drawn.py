"""Minimum shares of relevant Hypothesis examples: with too few, a property test checks nothing.

    @measured(conflict=0.2)
    @given(...)
    def test_...(...):
        drawn("conflict", an_example_is_about_one)

A share is of all examples of a test, including those that it leaves early. Another failure takes precedence. Each run
prints the shares. `drawn` returns its condition, for use in the condition of an early return.
"""

import functools
import math
from collections import Counter

from hypothesis import settings

__all__ = ["BlindError", "drawn", "measured"]

NONE_IS_BLIND = 3
"""Expected number of relevant examples at which none is not by chance: properties draw more than they must."""
EXAMPLES_MIN = 20
"""Number of examples below which no share is required."""

SETTINGS = "_hypothesis_internal_use_settings"


class BlindError(AssertionError):
    """Too few examples are relevant."""


class _Count:
    """The examples of one run of a test, and the number of relevant ones by name."""

    def __init__(self):
        self.examples = 0
        self.about = Counter()
        self._this = set()

    def begin(self):
        self.examples += 1
        self._this.clear()

    def add(self, name, holds):
        """Count the current example once."""
        self.about[name] += holds and name not in self._this
        if holds:
            self._this.add(name)


_current = []


def drawn(name, holds=True):
    """Count the current example as relevant for `name` if the condition holds; return the condition."""
    assert _current, "drawn() needs a test with @measured"
    _current[-1].add(name, bool(holds))
    return bool(holds)


def _settings_of(test):
    """Return explicit settings only: Hypothesis gives parametrized tests its own, with one health check less."""
    return repr(settings(vars(test).get(SETTINGS, settings.default), suppress_health_check=()))


def _is_blind(found, examples, share_min):
    """Return whether the share is below the expected one by more than three sigma."""
    if examples < EXAMPLES_MIN:
        return False
    expected = share_min * examples
    return found < expected - 3 * math.sqrt(expected * (1 - share_min)) or (found == 0 and expected >= NONE_IS_BLIND)


def measured(**shares_min):
    """Fail a test if fewer of its examples than these shares are relevant."""

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
            assert not unknown, f"counted, but without a required share: {sorted(unknown)}"
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
