"""Code blocks of the documentation, extracted to be run.

A Python block with tests is a test file, any other one a program. An INI block is a pytest configuration. A sh or
console block is commands, in the latter case with their output. Blocks are independent. A block that is not run, or run
elsewhere, has the reason in a comment above it: `<!-- not run: REASON -->` or `<!-- run by PATH -->`, a path of this
repository.
"""

import re
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PYTHON = ("python", "py")
SHELL = ("sh", "console")
BLOCK = re.compile(
    r"^(?: *<!-- (?P<excuse>(?:not run: |run by )[^>]*?) -->\n)?"
    r"(?P<indent> *)```(?P<language>\w+)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


@attrs.frozen
class Block:
    """A code block with its document, line, language and text, and the reason why it is not run here."""

    document: Path
    line: int
    language: str
    text: str
    excuse: str = ""

    @property
    def is_test(self):
        return self.language in PYTHON and re.search(r"^(async )?def test_", self.text, re.MULTILINE) is not None

    @property
    def place(self):
        return f"{self.document.name}-{self.line}"


@attrs.frozen
class Command:
    """A command of a block, and the output that the document shows."""

    text: str
    shown: tuple[str, ...]


def blocks(document: Path, *languages: str):
    """Return the blocks of a document in these languages."""
    text = document.read_text(encoding="utf-8")
    return [
        Block(
            document,
            text.count("\n", 0, found.start("text")) + 1,
            found["language"],
            re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            found["excuse"] or "",
        )
        for found in BLOCK.finditer(text)
        if found["language"] in languages
    ]


def write_tests(document: Path, folder: Path):
    """Write each block with tests to a file named by its line, unless it is run elsewhere; return their number."""
    tests = [block for block in blocks(document, *PYTHON) if block.is_test and not block.excuse]
    for block in tests:
        (folder / f"test_line_{block.line}.py").write_text(block.text, encoding="utf-8")
    return len(tests)


def blocks_run_by(runner: str):
    """Return the Python blocks of all documents that a file of this repository runs."""
    return [
        block for document in DOCUMENTS for block in blocks(document, *PYTHON) if block.excuse == f"run by {runner}"
    ]


def programs(document: Path):
    """Return the Python blocks to run unchanged."""
    return [block for block in blocks(document, *PYTHON) if not block.is_test and not block.excuse]


def commands(block: Block):
    """Return the commands of a sh or console block, with continuation lines joined."""
    prompt = "$ " if block.language == "console" else ""
    found: list[tuple[list[str], list[str]]] = []
    for line in block.text.splitlines():
        if found and found[-1][0][-1].endswith("\\"):
            found[-1][0].append(line)
        elif prompt and not line.startswith(prompt):
            found[-1][1].append(line)
        elif line.strip():
            found.append(([line.removeprefix(prompt)], []))
    return [Command("\n".join(lines), tuple(shown)) for lines, shown in found]
