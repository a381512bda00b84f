"""The tests of behaviours and of cases, from the docstrings of the tests.

A docstring with "Behaviour 7: ..." or "Behaviours 7, 12-15 and testMute." names its test in the generated parts of
docs/evidence/behaviours.md. "Case 12: ..." does so there or in docs/evidence/campaigns.md. `write_reference.py` writes
these parts.
"""

import ast
import functools
import re
from pathlib import Path

__all__ = ["by_key", "claims", "every_test", "invariants_of", "keys_of", "rows"]

ROOT = Path(__file__).parent.parent
WITHOUT_TEST = "No test: "
"""Begins the reason in a row whose fact has no test."""
ROW = re.compile(r"^\| (\d+|test\w+) \| (.+) \|$", re.MULTILINE)
INVARIANTS = re.compile(r"stages/test_invariants_\w+|stages/test_partial_frames|producers/test_producer_state")
"""Files with tests of numbered invariants."""
KEYS = r"(?:\d+(?:-\d+)?|test[A-Z]\w*)(?:, | and )?"
CLAIM = re.compile(rf"(?:^|(?<=\s))(Behaviour|Case)s? ((?:{KEYS})+)[:.]")


@functools.cache
def every_test(root: Path = ROOT) -> dict[str, str]:
    """Return the docstring of each test, by path::name or path::Class::name, without importing anything."""
    found: dict[str, str] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        name = path.relative_to(root).as_posix()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            inner = node.body if isinstance(node, ast.ClassDef) else [node]
            prefix = f"{name}::{node.name}::" if isinstance(node, ast.ClassDef) else f"{name}::"
            for one in inner:
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_"):
                    found[prefix + one.name] = ast.get_docstring(one) or ""
    return found


def keys_of(listed: str) -> list[str]:
    """Return the keys of a list such as "7, 12-15 and testMute"."""
    keys: list[str] = []
    for part in re.split(r", | and ", listed):
        first, _, last = part.partition("-")
        keys += [str(key) for key in range(int(first), int(last) + 1)] if last else [part]
    return keys


def claims(docstring: str) -> list[str]:
    """Return the keys that a docstring claims, such as "7" for a behaviour and "case 7" for a case."""
    return [
        f"case {key}" if kind == "Case" else key for kind, listed in CLAIM.findall(docstring) for key in keys_of(listed)
    ]


def by_key(tests: dict[str, str]) -> dict[str, list[str]]:
    """Return the tests of each claimed key, by the docstrings of all tests."""
    found: dict[str, list[str]] = {}
    for test, docstring in tests.items():
        for key in dict.fromkeys(claims(docstring)):
            found.setdefault(key, []).append(test)
    return found


def invariants_of(test: str) -> list[int]:
    """Return the numbers of invariants that begin the name of a test, as in `test_1_and_2_...`."""
    path, _, name = test.partition("::")
    numbers = re.match(r"test_((?:\d+_(?:and_)?)+)", name.rpartition("::")[2])
    return [int(each) for each in re.findall(r"\d+", numbers[1])] if numbers and INVARIANTS.search(path) else []


def rows(text: str) -> dict[str, str]:
    """Return the other cells of each row that begins with a number or the name of one of Kafka's tests."""
    return {found[1]: found[2] for found in ROW.finditer(text)}
