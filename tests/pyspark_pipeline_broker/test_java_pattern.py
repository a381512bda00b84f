"""Patterns match the same names as in `java.util.regex` of OpenJDK 21, which produced the expected results."""

import pickle

import pytest

from pyspark_pipeline_broker.java_pattern import JavaPattern

NAMES = ("orders", "orders-eu", "a", "b", "A", "AB", "ab", "aB", "aa", "x.y", "x_y", "5", "t5", "a-b", "ORDERS")


def found(pattern):
    return [name for name in NAMES if JavaPattern.read(pattern).find(name)]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders", ["orders", "orders-eu"]),
        ("^[a-c&&[^b]]$", ["a"]),
        ("^[a-z&&[^m-p]]$", ["a", "b"]),
        ("^[^a&&b]$", ["a", "b", "A", "5"]),
        ("^[a[0-9]]$", ["a", "5"]),
        (r"[\w&&[^\d]]$", [name for name in NAMES if name not in {"5", "t5"}]),
        (r"[\p{javaUpperCase}5]", ["A", "AB", "aB", "5", "t5", "ORDERS"]),
        (r"^\P{javaLowerCase}+$", ["A", "AB", "5", "ORDERS"]),
        (r"\p{IsLu}", ["A", "AB", "aB", "ORDERS"]),
        (r"\p{IsDigit}", ["5", "t5"]),
        (r"\p{IsPunctuation}", ["orders-eu", "x.y", "x_y", "a-b"]),
        (r"^\p{Lower}+$", ["orders", "a", "b", "ab", "aa"]),
        (r"\p{L}\p{N}", ["t5"]),
        (r"^\p{LD}{2}$", ["AB", "ab", "aB", "aa", "t5"]),
        (r"\Qx.y\E", ["x.y"]),
        (r"\Qx_y", ["x_y"]),
        (r"[\Q^-]\E]", ["orders-eu", "a-b"]),
        (r"^(?<n>a)\k<n>$", ["aa"]),
        ("^(a)(b)$", ["ab"]),
        ("^a(?i)b$", ["ab", "aB"]),
        ("(?U)^a$", ["a"]),
        ("(?i-s:^A$)", ["a", "A"]),
        ("(?i)(?-i)A", ["A", "AB"]),
        ("(?xu) o r d", ["orders", "orders-eu"]),
        ("a*+b", ["b", "ab", "a-b"]),
        ("^(?>a+)b", ["ab"]),
        ("(?<=a)b", ["ab"]),
        (r"\x{61}\z", ["a", "aa"]),
        (r"^\0141$", ["a"]),
        (r"^\N{LATIN SMALL LETTER A}$", ["a"]),
        (r"^\V$", ["a", "b", "A", "5"]),
        ("[[:alpha:]]$", ["a", "aa"]),
        ("^[a||b]$", ["a", "b"]),
        ("^[a~~b]$", ["a", "b"]),
    ],
)
def test_a_pattern_is_found_where_java_finds_it(pattern, names):
    assert found(pattern) == names


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "*a",
        "a|*",
        "[a",
        "a{2",
        "{",
        "(?P<n>a)",
        "(?:a){e<=1}",
        "(?#x)a",
        "(?|a|b)",
        r"\y",
        r"\p{Xyz}",
        r"\p{IsXyz}",
        r"\p{javaXyz}",
        r"(?<n>a)\k<m>",
    ],
)
def test_patterns_that_java_rejects_are_rejected(pattern):
    with pytest.raises(ValueError, match=r"."):
        JavaPattern.read(pattern)


def test_a_pattern_can_be_sent_to_another_process():
    assert pickle.loads(pickle.dumps(JavaPattern.read("^a(?i)b"))).find("aB")
