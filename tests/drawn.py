"""How many of the examples that Hypothesis draws are about what a test is about: too few, and the test is blind.

    @measured(conflict=0.2)
    @given(...)
    def test_...(...):
        drawn("conflict", an_example_is_about_one)

Rules: a share is of all examples of a test, those that it leaves early included; a test that is shown a failure says
that one. `drawn` returns what it counts, so that it can stand in the condition of an early return.
"""

import functools
from collections import Counter

__all__ = ["BlindError", "drawn", "measured"]

EXAMPLES_MIN = 20
"""Of fewer examples no share is asked."""


class BlindError(AssertionError):
    """Too few examples are about what a test is about."""


class _Count:
    def __init__(self):
        self.examples = 0
        self.about = Counter()


_current = []


def drawn(name, holds=True):
    """Count an example as one about `name` where that holds; returns whether it does."""
    assert _current, "only a measured test counts what it draws"
    _current[-1].about[name] += bool(holds)
    return bool(holds)


def measured(**shares_min):
    """Have a test fail when fewer of its examples than these shares are about the names."""

    def decorate(test):
        _count_examples(test.hypothesis)

        @functools.wraps(test)
        def run(*arguments, **fixtures):
            count = _Count()
            _current.append(count)
            try:
                test(*arguments, **fixtures)
            finally:
                _current.pop()
            unknown = count.about.keys() - shares_min.keys()
            assert not unknown, f"counted, and no share is asked of it: {sorted(unknown)}"
            found = {name: count.about[name] / max(count.examples, 1) for name in shares_min}
            if count.examples >= EXAMPLES_MIN and any(found[name] < shares_min[name] for name in shares_min):
                shares = ", ".join(f"{name} {found[name]:.0%} (at least {shares_min[name]:.0%})" for name in shares_min)
                raise BlindError(f"of {count.examples} examples: {shares}")

        return run

    return decorate


def _count_examples(handle):
    example = handle.inner_test

    @functools.wraps(example)
    def counted(*arguments, **values):
        _current[-1].examples += 1
        return example(*arguments, **values)

    handle.inner_test = counted
