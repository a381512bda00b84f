"""Code that a document shows, taken out of it to be run.

Rules: a block of Python that defines tests is a test file, any other one a program; a block of INI is a configuration
of pytest. Each stands on its own.
"""

import re
from pathlib import Path

import attrs

BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@attrs.frozen
class Block:
    """One block: where it begins in the document, in which language, and what it says."""

    line: int
    language: str
    text: str

    @property
    def is_test(self):
        return self.language == "python" and re.search(r"^(async )?def test_", self.text, re.MULTILINE) is not None


def blocks(document: Path, language: str):
    """The blocks of a document in one language."""
    text = document.read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, found.start()) + 2, language, found["text"])
        for found in BLOCK.finditer(text)
        if found["language"] == language
    ]


def write_tests(document: Path, folder: Path):
    """Write each block with tests to a file named by its line; how many there are."""
    tests = [block for block in blocks(document, "python") if block.is_test]
    for block in tests:
        (folder / f"test_line_{block.line}.py").write_text(block.text, encoding="utf-8")
    return len(tests)


def programs(document: Path):
    """The blocks that are run as they are."""
    return [block for block in blocks(document, "python") if not block.is_test]
