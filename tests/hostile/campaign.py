"""Which cases go into which life, and what is wrong after it.

Rules of this file: at length every mode has all cases; what the ordinary run leaves out is a version or another array
of an API that stays in it, or an API in the other mode, and half of the handmade cases, by DRAWN_SEED. A life begins
with what only reads; what deletes comes last; it ends amid what took the broker longest.
"""

import os
from operator import itemgetter

import attrs

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.wire.registry import ApiKey
from tests.crashes.lengths import AT_LENGTH
from tests.hostile.amplified import EACH_DIFFERENT, NOTHING_NAMED, cases_of
from tests.hostile.handmade import HANDMADE
from tests.hostile.harness import HEAD, ROOT, STOP_SECONDS_MAX, STRANGER, Guard, Life, in_memory, row

CASES_MAX = 80
"""Of one life; handmade ones, which are larger, have HANDMADE_MAX."""
HANDMADE_MAX = 12
MEASURED_ALONE_MAX = 3
"""How often a case is measured alone, until it holds its bounds: other programs only ever add to a wait."""
SEED = int(os.environ.get("DRAWN_SEED", "0"))
LINES_MAX = 20
"""What a life may write to standard error; a traceback is always one too many."""
FOR_KNOWN_USERS = {
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
"""What a broker with Kafka's defaults refuses at once."""
ASKED_BY_STRANGERS = (ApiKey.METADATA, ApiKey.OFFSET_FETCH, ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_GROUPS, ApiKey.PRODUCE)
"""APIs that look for rights of each element, in the ordinary run."""


@attrs.frozen
class Plan:
    """The cases of one life."""

    name: str
    cases: list
    guard: Guard | None = None


def plans(mode):
    """All lives of a mode."""
    keys = sorted(SERVED, key=_when)
    plain = [case for key in keys if key not in FOR_KNOWN_USERS for case in drawn(key, mode)]
    known = [case for key in keys if key in FOR_KNOWN_USERS for case in drawn(key, mode)]
    strange = [case for key in (keys if AT_LENGTH else ASKED_BY_STRANGERS) for case in drawn(key, mode)]
    yield from _split("served APIs", plain, CASES_MAX)
    first = (SEED + 2 * (mode == "classic")) % 4
    yield from _split("handmade", HANDMADE if AT_LENGTH else HANDMADE[first::4], HANDMADE_MAX)
    yield from _split("known users", known, CASES_MAX, Guard(ROOT))
    yield from _split("strangers", strange, CASES_MAX, Guard(STRANGER))


def drawn(key, mode):
    """The cases of an API: all at length; else, in one mode, one of its lowest and one of its highest version."""
    versions = SERVED[key].versions
    if AT_LENGTH:
        return list(cases_of(key, versions))
    if key % 2 == (mode == "classic"):
        return []
    lowest, highest = (list(cases_of(key, [version])) for version in (versions[0], versions[-1]))
    lowest.sort(key=lambda case: (case.what != NOTHING_NAMED, not case.what.endswith(EACH_DIFFERENT)))
    highest.sort(key=lambda case: case.what.endswith(EACH_DIFFERENT))
    return [*lowest[:1], *highest[-1:]]


def _when(key):
    served = SERVED[key]
    return served.name.startswith("Delete"), served.writes, key


def _split(name, cases, size, guard=None):
    count = -(-len(cases) // size)
    for index in range(count):
        yield Plan(f"{name} {index + 1} of {count}", cases[index * size :][:size], guard)


def faults_of(plan, mode, filled, tell):
    """Live through a plan; the bounds that do not hold, as lines.

    Args:
        plan: the cases.
        mode: of the broker.
        filled: the folder of the prepared directory, and the World.
        tell: takes the row of each case.
    """
    source, world = filled
    found, longest = [], (0.0, plan.cases[0])
    with in_memory(source) as folder:
        life = Life(folder, source, mode, plan.guard)
        try:
            for case in plan.cases:
                cost = life.attack(case, world)
                for _ in range(MEASURED_ALONE_MAX):
                    if cost.is_narrow:
                        cost = measured_alone(case, plan, mode, filled)
                tell(row(mode, case, cost))
                found += [f"{fault}: {row(mode, case, cost)}" for fault in cost.faults]
                longest = max(longest, (cost.cpu_ms, case), key=itemgetter(0))
                if cost.waits.error or cost.unanswered:
                    break
            stderr = life.process.stderr
            seconds = life.end_amid(longest[1], world)
        except BaseException as error:
            error.add_note(f"{mode}, {plan.name}, {case.name}; {life.abandon()}")
            raise
        if seconds > STOP_SECONDS_MAX:
            found.append(f"it ended {seconds:.1f} s after SIGTERM, amid {longest[1].name}")
        if "Traceback" in stderr or stderr.count("\n") > LINES_MAX:
            found.append(f"it wrote {stderr[:2000]!r}")
        life.serves_again()
    return [HEAD, *found, f"the innocent client alone: {life.baseline}"] if found else []


def measured_alone(case, plan, mode, filled):
    """The cost of a case in a life in which nothing else was asked."""
    source, world = filled
    with in_memory(source) as folder:
        life = Life(folder, source, mode, plan.guard)
        try:
            return life.attack(case, world)
        finally:
            life.end_amid(case, world)
