"""Whether Python's engine, which backtracks, matches a pattern in time that is linear in the text.

A pattern becomes an automaton whose states are its characters (Glushkov's). It is slow where a text leads from a loop
to the same loop in two ways (exponential), or from one loop to another while it leads around in both (polynomial):
Weideman et al., "Analyzing matching time behavior of backtracking regular expression matchers". What ends the text is
left out of account, so a pattern may be called slow that is not, never the other way round. A pattern that is searched
begins at every character: that is one more loop before it.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from re import _compiler, _constants, _parser

COPIES_MAX = 4
"""A repeat that is bounded by more is taken for one without a bound."""
LETTERS_MAX = 8
BASE_CHARACTERS = "\0\n\r\t aZbY0_-.,=/:\\\"'é٣\u00a0\U0001f600"
ATOMS = {_constants.LITERAL, _constants.NOT_LITERAL, _constants.IN, _constants.ANY}
REPEATS = {_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT}


class Part:
    """What an expression may begin and end with, and whether it may be empty."""

    def __init__(self, first=(), last=(), *, is_nullable=True):
        self.first, self.last, self.is_nullable = list(first), list(last), is_nullable


class Automaton:
    """States are characters of the pattern; an edge that two loops make counts twice."""

    def __init__(self, text, flags=0):
        self.problems = []
        self.ends_somewhere = False  # what follows may fail behind a loop
        parsed = _parser.parse(text, flags)
        self._state = parsed.state
        self.matchers, self.edges, self._has_loop = [], Counter(), False
        self._characters = set(BASE_CHARACTERS)
        self.whole = self._sequence(parsed)
        self.characters = sorted(self._characters)
        self.accepts = [
            frozenset(each for each in self.characters if matcher.fullmatch(each)) for matcher in self.matchers
        ]

    def _sequence(self, items):
        whole = Part()
        for item in items:
            whole = self._joined(whole, self._item(*item))
        return whole

    def _joined(self, one, other):
        self.edges.update(itertools.product(one.last, other.first))
        return Part(
            one.first + (other.first if one.is_nullable else []),
            other.last + (one.last if other.is_nullable else []),
            is_nullable=one.is_nullable and other.is_nullable,
        )

    def _item(self, kind, argument):
        if kind in ATOMS:
            return self._atom(kind, argument)
        if kind is _constants.BRANCH:
            parts = [self._sequence(branch) for branch in argument[1]]
            return Part(
                [each for part in parts for each in part.first],
                [each for part in parts for each in part.last],
                is_nullable=any(part.is_nullable for part in parts),
            )
        if kind is _constants.SUBPATTERN:
            return self._sequence(argument[3])
        if kind is _constants.ATOMIC_GROUP:
            return self._sequence(argument)
        if kind in REPEATS:
            return self._repeat(*argument)
        if kind in {_constants.ASSERT, _constants.ASSERT_NOT}:
            self._look(argument[1])
            self.ends_somewhere = self.ends_somewhere or argument[0] > 0
        elif kind is _constants.AT:
            self.ends_somewhere = self.ends_somewhere or argument not in {
                _constants.AT_BEGINNING,
                _constants.AT_BOUNDARY,
            }
        else:
            self.problems.append(f"{kind} cannot be judged")
        return Part()

    def _atom(self, kind, argument):
        item = _parser.SubPattern(self._state, [(kind, argument)])
        self._note(kind, argument)
        self.matchers.append(_compiler.compile(item, self._state.flags))
        return Part([len(self.matchers) - 1], [len(self.matchers) - 1], is_nullable=False)

    def _note(self, kind, argument):
        """Take note of the characters at which a class begins or ends."""
        codes = []
        if kind in {_constants.LITERAL, _constants.NOT_LITERAL}:
            codes = [argument]
        elif kind is _constants.RANGE:
            codes = [*argument, argument[0] - 1, argument[1] + 1]
        elif kind is _constants.IN:
            for item in argument:
                self._note(*item)
        for code in codes:
            if 0 <= code < 0x110000:
                self._characters |= {chr(code), chr(code).lower()[:1], chr(code).upper()[:1]}

    def _repeat(self, least, most, body):
        if most <= COPIES_MAX:
            whole = Part()
            for number in range(most):
                copy = self._sequence(body)
                copy.is_nullable = copy.is_nullable or number >= least
                whole = self._joined(whole, copy)
            return whole
        part = self._sequence(body)
        if part.is_nullable and part.first:
            self.problems.append("a loop around something that may be empty")
        self.edges.update(itertools.product(part.last, part.first))
        return Part(part.first, part.last, is_nullable=part.is_nullable or least == 0)

    def _look(self, body):
        """What is looked at ahead or behind is a pattern of its own, which begins where this one is."""
        before = len(self.matchers)
        self._sequence(body)
        states = range(before, len(self.matchers))
        if any((a in states and b in states and b <= a) for a, b in self.edges):
            self._has_loop = True

    @property
    def looks_far(self):
        """Whether a look ahead has a loop: linear where the pattern begins once."""
        return self._has_loop


def problems_of(text, flags=0, *, is_searched=False):
    """Why a pattern may take longer than its text; empty for one that is linear by construction."""
    automaton = Automaton(text, flags)
    problems = list(automaton.problems)
    accepts, edges = list(automaton.accepts), Counter(automaton.edges)
    if is_searched:
        if automaton.looks_far:
            problems.append("a look ahead with a loop, at every character")
        start = len(accepts)
        accepts.append(frozenset(automaton.characters))
        edges[start, start] += 1
        found = () if automaton.ends_somewhere else automaton.whole.last  # there the search ends
        edges.update((start, each) for each in automaton.whole.first if each not in found)
    after = defaultdict(list)
    for one, other in edges:
        after[one].append(other)
    loops = _loops(after)
    problems += [
        f"two loops around the same character, {sorted(accepts[one])[:3]}"
        for (one, other), count in edges.items()
        if count > 1 and loops.get(one) is not None and loops.get(one) == loops.get(other)
    ]
    for one, other in itertools.permutations(loops, 2):
        if _lead_to_each_other(one, other, after, accepts, loops):
            problems.append(f"two loops for {sorted(accepts[one])[:3]} and {sorted(accepts[other])[:3]}")
            break
    return problems


def _loops(after):
    """The states that are in a loop, with a name of their loop."""
    reached = {}
    for state in list(after):
        found, left = set(), list(after[state])
        while left:
            each = left.pop()
            if each not in found:
                found.add(each)
                left += after.get(each, ())
        reached[state] = found
    in_loops = [state for state in reached if state in reached[state]]
    return {
        state: min(other for other in in_loops if other in reached[state] and state in reached[other])
        for state in in_loops
    }


def _lead_to_each_other(one, other, after, accepts, loops):
    """Whether a text leads from `one` around to it, from it to `other`, and around from `other`."""
    seen, left = set(), [(one, one, other)]
    while left:
        states = left.pop()
        for following in itertools.product(*(after.get(state, ()) for state in states)):
            first, _, third = following
            if loops.get(first) != loops[one] or loops.get(third) != loops[other] or following in seen:
                continue
            if not frozenset.intersection(*(accepts[state] for state in following)):
                continue
            if following == (one, other, other):
                return True
            seen.add(following)
            left.append(following)
    return False


def adversarial_texts(text, flags=0, *, size):
    """Texts that make a slow pattern slow: its characters, and pairs of them, again and again, and an end that fits
    nothing."""
    letters = sorted({letter for each in Automaton(text, flags).accepts for letter in sorted(each)[:2]})[:LETTERS_MAX]
    for first, second in itertools.product(letters, repeat=2):
        yield ((first + second) * size)[:size] + "\U0001f600"
