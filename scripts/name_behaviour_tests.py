"""Update the tests named in docs/evidence/behaviours.md.

A docstring with "Behaviour 7: ..." or "Behaviours 7, 12-15 and testMute: ..." adds its test to those rows. Tests that
were added by hand stay, and moved ones are followed. Run it after adding or moving such a test:
`python scripts/name_behaviour_tests.py`.
"""

import ast
import functools
import re
from pathlib import Path

import attrs

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs/evidence/behaviours.md"
REASON = "none: "
"""Prefix of the last column for a behaviour without a test."""
ROW = re.compile(r"\| (\d+|test\w+|case \d+) \| (.+) \| (.+) \| (.+) \|")
CLAIM = re.compile(r"(?:^|(?<=\s))Behaviours? ((?:(?:\d+(?:-\d+)?|test[A-Z]\w*)(?:, | and )?)+):")


@attrs.define
class Row:
    """A row of the table: the fact, the difference of the pipelined mode, and the tests or the reason for none."""

    key: str
    fact: str
    pipelined: str
    tests: str

    @property
    def named(self) -> list[str]:
        """The tests, with paths that begin at the repository; the document leaves `tests/` out."""
        return [f"tests/{test}" for test in re.findall(r"`([^` ]+\.py::[^`]+)`", self.tests)]

    def __str__(self) -> str:
        return f"| {self.key} | {self.fact} | {self.pipelined} | {self.tests} |"


def rows(text: str) -> list[Row]:
    return [Row(*found.groups()) for line in text.splitlines() if (found := ROW.fullmatch(line))]


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


def claims(docstring: str) -> list[str]:
    """Return the keys of the rows that a docstring claims."""
    keys: list[str] = []
    for claim in CLAIM.findall(docstring):
        for part in re.split(r", | and ", claim):
            first, _, last = part.partition("-")
            keys += [str(key) for key in range(int(first), int(last) + 1)] if last else [part]
    return keys


def with_tests(text: str, tests: dict[str, str]) -> str:
    """Return the document with the current tests of every row."""
    claimed: dict[str, list[str]] = {}
    for test, docstring in tests.items():
        for key in claims(docstring):
            claimed.setdefault(key, []).append(test)
    places: dict[str, list[str]] = {}
    for test in tests:
        places.setdefault(test.rpartition("::")[2], []).append(test)

    def current(test: str) -> list[str]:
        # A test is dropped if its name no longer exists, or exists more than once.
        if test in tests:
            return [test]
        moved = places.get(test.rpartition("::")[2], [])
        return moved if len(moved) == 1 else []

    lines = []
    for line in text.splitlines():
        if found := ROW.fullmatch(line):
            row = Row(*found.groups())
            named = [place for test in row.named for place in current(test)]
            named = list(dict.fromkeys([*claimed.get(row.key, []), *named]))
            if named:
                row.tests = " ".join(f"`{test.removeprefix('tests/')}`" for test in named)
            line = str(row)
        lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(with_tests(DOCUMENT.read_text(encoding="utf-8"), every_test()), encoding="utf-8")
