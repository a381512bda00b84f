"""The simulation finds what it must find: each seeded bug is caught by the check that is about it, by few scenarios."""

import pytest

from tests.simulation.seeded_bugs import BUGS
from tests.simulation.simulation import simulate

SCENARIOS_MAX = 400
"""Of the kinds that may show the bug."""
FIRST_SEEDS = {
    "block all connections at a full queue": 2916,
    "complete a transaction before its markers": 22,
    "give out the same producer ids": 36,
    "join late as the controller": 1040,
    "lead all partitions": 8,
    "miss records of the controller": 44,
    "never join again": 132,
    "obey an earlier coordinator": 360,
    "serve before the join": 360,
    "stop without draining": 369,
    "try a failed sync again": 148,
}
"""First seeds of the search for bugs that earlier seeds do not show. Changed scenarios make it longer."""
MISTAKES = (AttributeError, NameError, TypeError)
"""Errors of a seeded bug itself, which would be caught for the wrong reason."""

pytestmark = pytest.mark.simulation


def causes(error):
    if isinstance(error, BaseExceptionGroup):
        return [cause for each in error.exceptions for cause in causes(each)]
    return [error]


def complaints_of(seed, bug):
    """What is wrong in a scenario; a broker that does not even start says why."""
    try:
        return simulate(seed, bug.parts, bug.draw).complaints
    except ExceptionGroup as error:
        found = causes(error)
    mistakes = [cause for cause in found if isinstance(cause, MISTAKES)]
    assert not mistakes
    return [str(cause) for cause in found]


@pytest.mark.parametrize("name", BUGS)
def test_a_seeded_bug_is_caught(name):
    bug = BUGS[name]
    first = FIRST_SEEDS.get(name, 0)
    seeds = (seed for seed in range(first, first + 20 * SCENARIOS_MAX) if bug.may_show_in(bug.draw(seed)))
    with bug.active():
        for scenarios, seed in enumerate(seeds, start=1):
            assert scenarios <= SCENARIOS_MAX, f"{name} is not caught"
            if not bug.has_clients_in(bug.draw(seed)):
                continue
            found = [text for text in complaints_of(seed, bug) if bug.finds in text]
            if found:
                break
    print(f"\ninvariant {bug.invariant}, {name}: caught by scenario {scenarios} (seed {seed}): {found[0][:120]}")
