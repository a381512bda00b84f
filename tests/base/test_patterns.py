"""Expressions of clients have RE2's syntax, match whole texts, and take bounded time and memory."""

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.patterns import LENGTH_MAX, MEMORY_BYTES_MAX, InvalidPatternError, compiled
from tests.drawn import drawn, measured


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("events", "events", "events2"),
        ("ev.*", "events", "my-events"),
        (".*", "", None),
        ("a|b", "b", "ab"),
        ("[[:alpha:]]+", "abc", "ab1"),
        ("(?i)ABC", "abc", "abd"),
        (r"\pL+", "grüße", "a1"),
        (r"\Qa.b\E", "a.b", "axb"),
        ("x{2,3}", "xxx", "x"),
        ("^orders-[0-9]+$", "orders-17", "orders-x"),
    ],
)
def test_a_whole_text_matches_or_does_not(text, matching, other):
    assert compiled(text).matches(matching)
    assert other is None or not compiled(text).matches(other)


@pytest.mark.parametrize(
    "text",
    [
        "(",
        "[",
        "[b-a]",
        "(?=x)",
        "(?<!x)",
        "*",
        "a**",
        "a{1001}",
        "\\8",
        "\\",
        "((a{100}){100}){100}",
    ],
)
def test_syntax_that_re2_lacks_is_rejected_with_the_reason(text):
    with pytest.raises(InvalidPatternError) as caught:
        compiled(text)
    assert str(caught.value)


@measured(expression=0.1, refused=0.02)
@given(st.text(max_size=30) | st.text("(){}[]*+?|\\.^$a1:<>P-,", max_size=30), st.text(max_size=20))
def test_any_text_compiles_or_is_rejected(text, name):
    try:
        pattern = compiled(text)
    except InvalidPatternError:
        drawn("refused")
        return
    drawn("expression")
    assert pattern.matches(name) in {True, False}


def test_long_expressions_are_rejected_quickly():
    longest = "a|" * (LENGTH_MAX // 2 - 1) + "bc"
    assert compiled(longest).matches("bc")
    with pytest.raises(InvalidPatternError, match="longer than"):
        compiled(longest + "d")


@pytest.mark.parametrize(
    "text",
    [
        r"\pL" * 1365,
        r"[^\pL]" * 500,
        "a{1000}" * 500,
        r"\PL{1000}",
        "(?:a?){1000}" * 8,
        r"(?:\w?){900}x",
        "(?:.?){1000}" * 3,
        "." * LENGTH_MAX,
        "(?i)k" * 800,
    ],
)
def test_costly_expressions_are_rejected_quickly(text):
    began = time.thread_time()
    with pytest.raises(InvalidPatternError):
        compiled(text)
    assert time.thread_time() - began < 0.03


@pytest.mark.parametrize(
    "text", ["(?:a?){900}", "(?:a?b?){240}x", "(a*)*(a|a)*(a?){100}b", r"(?:\pL?)x", "(?:a|b)*a(?:a|b){30}c"]
)
def test_the_costliest_accepted_expression_matches_in_milliseconds(text):
    pattern = compiled(text)
    began = time.thread_time()
    for name in ("a" * 249, "ab" * 124):
        pattern.matches(name)
    assert time.thread_time() - began < 0.04
    assert pattern.size > 0


def test_a_text_that_is_too_long_for_the_expression_does_not_match():
    pattern = compiled("(?:a?){900}a*")
    assert pattern.matches("a" * 249)
    assert not pattern.matches("a" * 30_000)
    assert compiled("a*").matches("a" * 30_000)


def test_an_expression_that_takes_too_long_for_many_names_fails():
    names = [f"{'a' * 200}{number}" for number in range(2_000)]
    assert compiled("a*[0-9]+").matching(names) == names
    began = time.thread_time()
    with pytest.raises(InvalidPatternError, match="too long"):
        compiled("(?:a?){900}x").matching(names)
    assert time.thread_time() - began < 0.3


def test_cached_expressions_are_bounded_in_bytes():
    assert compiled.cache_parameters()["maxsize"] * MEMORY_BYTES_MAX <= 32 << 20


def test_invalid_expressions_are_not_logged(capfd):
    """A client cannot fill the broker's log."""
    with pytest.raises(InvalidPatternError):
        compiled("(unbalanced")
    assert capfd.readouterr() == ("", "")


def test_a_text_with_surrogates_is_rejected():
    with pytest.raises(InvalidPatternError):
        compiled("\ud800")


def test_expressions_that_backtrack_elsewhere_take_linear_time():
    pattern = compiled("(a*)*(a|a)*(a?)b")
    began = time.thread_time()
    assert not pattern.matches("a" * 20_000)
    assert time.thread_time() - began < 0.1


def test_a_broker_without_patterns_does_not_load_re2():
    script = "import sys, pipeline_broker.broker.broker; print('re2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
