"""Every pattern of the product is matched in linear time, or is listed here with the reason why that does not matter.

Python's `re` backtracks and holds the interpreter meanwhile. Expressions that come from outside are matched by RE2
(`pipeline_broker/base/patterns.py`); those of the source are linear by construction, which is proved from the pattern.
"""

import ast
import functools
import importlib
import re
import time
from pathlib import Path

import pytest

from tests.repository.pattern_analysis import adversarial_texts, problems_of

PACKAGES = ("pipeline_broker", "stages")
FUNCTIONS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
SEARCHES = {"search", "sub", "subn", "split", "findall", "finditer"}
TIMED_CHARS = 4_000
TIMED_SECONDS = 0.3
"""What a linear pattern takes for so many characters is 0.1 ms; one that is quadratic takes 0.3 s."""
MADE_LATER = {
    ("pipeline_broker/faults/rule_file.py", "re.compile"): "made of a key of a rule, escaped; meets one line of a file",
}
NOT_LINEAR = {
    # pattern: why that does not matter
}
pytestmark = pytest.mark.xdist_group("patterns")  # each worker would search the source for itself


def sources():
    for package in PACKAGES:
        yield from sorted(Path(package).rglob("*.py"))


def calls_of_re(tree):
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in FUNCTIONS
        ):
            yield node


def names_searched(tree):
    """Names with which a file searches something."""
    return {
        node.value.id if isinstance(node.value, ast.Name) else node.value.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in SEARCHES
        and isinstance(node.value, ast.Name | ast.Attribute)
    }


def names_imported(tree):
    return {each.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for each in node.names}


@functools.cache
def patterns():
    """Return each pattern of the source: its file, place, text (None if it is made later), flags, and whether it is
    searched.

    Takes seconds: call it in tests of this file only, which one worker runs.
    """
    return list(found_patterns())


def found_patterns():
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sources()}
    elsewhere = set().union(*(names_searched(tree) & names_imported(tree) for tree in trees.values()))
    for path, tree in trees.items():
        searched = names_searched(tree) | elsewhere
        names = {
            id(node.value): node.targets[0].id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for call in calls_of_re(tree):
            where = f"{path}:{call.lineno}"
            module = importlib.import_module(".".join(path.with_suffix("").parts))
            try:
                arguments = [eval(ast.unparse(each), vars(module)) for each in [call.args[0], *call.args[1:]]]
                flags = arguments[1] if call.func.attr == "compile" and len(arguments) > 1 else 0
            except NameError:
                if call.func.attr != "compile" and isinstance(call.args[0], ast.Constant):
                    arguments, flags = [call.args[0].value], 0
                else:
                    yield str(path), where, None, 0, False
                    continue
            is_searched = call.func.attr in SEARCHES or names.get(id(call)) in searched
            yield str(path), where, arguments[0], flags, is_searched


def test_every_pattern_of_the_source_is_found():
    found = patterns()
    assert len(found) > 50
    texts = [text for *_, text, _, _ in found]
    assert r"[+-]?[0-9]{1,20}" in texts
    assert {where for _, where, *_ in found if where.startswith("pipeline_broker/security/jaas.py")}


def test_no_module_takes_functions_of_re_by_their_names():
    """They would not be found here."""
    for path in sources():
        if not re.search(r"\bre\b", text := path.read_text(encoding="utf-8")):
            continue
        for node in ast.walk(ast.parse(text)):
            assert not (isinstance(node, ast.ImportFrom) and node.module == "re"), path
            assert not (isinstance(node, ast.alias) and node.name == "re" and node.asname), path


def test_a_pattern_that_is_made_while_the_broker_runs_is_known():
    """An expression from outside belongs to `base/patterns.py`."""
    assert {(path, "re.compile") for path, _, text, *_ in patterns() if text is None} == MADE_LATER.keys()


def test_each_pattern_is_linear_by_construction_and_in_fact():
    found = {}
    for _, where, text, flags, is_searched in patterns():
        if text is not None and (problems := problems_with(text, flags, is_searched=is_searched)):
            found[where] = problems
    assert found == {}


def problems_with(text, flags, *, is_searched):
    problems = problems_of(text, flags, is_searched=is_searched)
    if text in NOT_LINEAR:
        return [] if problems else ["it is linear now: take it off the list"]
    if problems:
        return problems
    pattern = re.compile(text, flags)
    for adversarial in adversarial_texts(text, flags, size=TIMED_CHARS):
        began = time.thread_time()
        pattern.search(adversarial) if is_searched else pattern.fullmatch(adversarial)
        if time.thread_time() - began >= TIMED_SECONDS:
            return [f"takes long for {adversarial[:4]!r} again and again"]
    return []


@pytest.mark.parametrize(
    ("text", "is_searched"),
    [
        (r"(a+)+$", False),
        (r"^CN=(a+)+$", False),
        (r"(a|aa)*b", False),
        (r"(?:a|b|ab)*c", False),
        (r"\s*([^=<>!]*?)\s*(?:(!=|>=|<=|==?|>|<)\s*(.*?)\s*)?", False),
        (r".*a.*b", False),
        (r"(?:[a-z.]+\.)+", False),
        (r"(?:a?){1000}", False),
        (r"(?P<a>[a-z]+)=(?P=a)", False),
        (r"-+BEGIN (?P<label>[A-Z0-9 ]+?)-+", True),
        (r"\s+$", True),
        (r"(?!.*x)[a-z]", True),
    ],
)
def test_a_pattern_that_runs_away_is_found(text, is_searched):
    assert problems_of(text, is_searched=is_searched)


@pytest.mark.parametrize(
    ("text", "is_searched"),
    [(r"[^a-z]+", True), (r'"(?:[^"\\]|\\.)*"', False), (r"(?:[a-z]+,)*[a-z]+", False), (r"-+BEGIN", False)],
)
def test_a_pattern_that_is_linear_is_left_alone(text, is_searched):
    assert problems_of(text, is_searched=is_searched) == []
