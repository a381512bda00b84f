"""Name in docs/evidence/behaviours.md the tests that say which behaviour they check, and follow those that moved.

A docstring with "Behaviour 7: ..." or "Behaviours 7, 12-15 and testMute: ..." puts its test into those rows; tests that
were named there by hand stay. Run it after such a test was added or moved:
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
"""What the last column begins with where no test can be named."""
ROW = re.compile(r"\| (\d+|test\w+|case \d+) \| (.+) \| (.+) \| (.+) \|")
CLAIM = re.compile(r"(?:^|(?<=\s))Behaviours? ((?:(?:\d+(?:-\d+)?|test[A-Z]\w*)(?:, | and )?)+):")


@attrs.define
class Row:
    """One line of the table: the fact, where the pipelined mode differs, and the tests or why there are none."""

    key: str
    fact: str
    pipelined: str
    tests: str

    @property
    def named(self) -> list[str]:
        """The tests, each as path::name."""
        return re.findall(r"`(tests/[^`]+)`", self.tests)

    def __str__(self) -> str:
        return f"| {self.key} | {self.fact} | {self.pipelined} | {self.tests} |"


def rows(text: str) -> list[Row]:
    """The rows of the document's tables, in its order."""
    return [Row(*found.groups()) for line in text.splitlines() if (found := ROW.fullmatch(line))]


@functools.cache
def every_test(root: Path = ROOT) -> dict[str, str]:
    """Each test of the tree, as path::name or path::Class::name, with its docstring; nothing is imported."""
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
    """The keys of the rows that a test says it checks."""
    keys: list[str] = []
    for claim in CLAIM.findall(docstring):
        for part in re.split(r", | and ", claim):
            first, _, last = part.partition("-")
            keys += [str(key) for key in range(int(first), int(last) + 1)] if last else [part]
    return keys


def with_tests(text: str, tests: dict[str, str]) -> str:
    """The document with every row naming its tests where they are now."""
    claimed: dict[str, list[str]] = {}
    for test, docstring in tests.items():
        for key in claims(docstring):
            claimed.setdefault(key, []).append(test)
    places: dict[str, list[str]] = {}
    for test in tests:
        places.setdefault(test.rpartition("::")[2], []).append(test)

    def current(test: str) -> list[str]:
        """Where it is; nothing for a test that is gone or whose name does not tell."""
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
                row.tests = "<br>".join(f"`{test}`" for test in named)
            line = str(row)
        lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(with_tests(DOCUMENT.read_text(encoding="utf-8"), every_test()), encoding="utf-8")
