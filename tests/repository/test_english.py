"""Habits of translated English, counted in everything that people read; their numbers only fall.

A ceiling is a rate per 10,000 words, and of docstrings that begin with a question word a percentage. A change that
exceeds one fails with the sentences that it may mean and the words to write in their place. If a rate is well below its
ceiling, lower the ceiling.
"""

import ast
import io
import re
import tokenize

import attrs
import pytest

from tests.repository.sources import PACKAGES, ROOT, source_files

QUESTION = re.compile(r"(What|How|Who|Whose|Where|Which|Whether|That|When|Why)\b")
BEHIND = r"(?<!lags )(?<!lag )(?<!is )(?<!are )\bbehind\b(?! (a|the) (proxy|lag|load balancer))"


@attrs.frozen
class Habit:
    """A pattern, the words to write in its place, and the ceilings per 10,000 words of source and of documents."""

    name: str
    pattern: str
    advice: str
    in_source: float
    in_documents: float

    def found(self, text):
        return re.findall(rf"[^.;\n]*(?:{self.pattern})[^.;\n]*", text, re.IGNORECASE)

    def rate(self, text):
        return len(re.findall(self.pattern, text, re.IGNORECASE)) * 10_000 / len(text.split())


HABITS = [
    Habit("nobody", r"\b(?:nobody|somebody|whoever)\b", "name the actor: the client, the caller, no client", 1, 1),
    Habit("is told", r"\b(?:is|are|was|were|be|been) told\b", "receives, learns, reports", 1, 1),
    Habit("in front of", r"\bin front of\b", "before", 1, 1),
    Habit("behind", BEHIND, "after", 1, 1),
    Habit(
        "there is no", r"\bthere (?:is|are|was|were) (?:no|none|not|nothing)\b", "no X exists; unknown, missing", 3, 3
    ),
    Habit(
        "what is",
        r"\b(?:what|who) (?:is|are|was|were|has|have|comes|came|goes|waits|stands|asks|takes)\b",
        "the noun",
        3,
        3,
    ),
    Habit("so many", r"\bso many\b", "name the parameter: `size_bytes` bytes", 1, 1),
    Habit("goes on", r"\b(?:goes|go|went|going) on\b", "continues, resumes", 1, 1),
]
QUESTIONS_PERCENT_MAX = 1.0
DOCSTRINGS_MAX = 5_140
"""Of the packages; a docstring that only repeats a name is deleted."""


def docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text


def messages(tree):
    """The texts of exceptions, log lines and help, which are strings with two spaces or more."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count(" ") > 1:
            yield node.value


def comments(text):
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def documents():
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("changelog.d/*.md")]
    without_code = (
        re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL) for path in paths
    )
    return "\n".join(without_code)


@pytest.fixture(scope="module")
def sources():
    return [path.read_text(encoding="utf-8") for path in source_files(*PACKAGES)]


@pytest.fixture(scope="module")
def trees(sources):
    return [ast.parse(text) for text in sources]


@pytest.fixture(scope="module")
def source_prose(sources, trees):
    texts = [text for tree in trees for text in messages(tree)]
    return "\n".join(texts + [line for text in sources for line in comments(text)])


@pytest.fixture(scope="module")
def document_prose():
    return documents()


def test_few_docstrings_begin_with_a_question_word(trees):
    texts = [text for tree in trees for text in docstrings(tree)]
    asking = [text.splitlines()[0] for text in texts if QUESTION.match(text)]
    assert len(asking) * 100 <= QUESTIONS_PERCENT_MAX * len(texts), "begin with a verb or a noun:\n" + "\n".join(asking)


def test_docstrings_earn_their_place(trees):
    assert sum(1 for tree in trees for _ in docstrings(tree)) <= DOCSTRINGS_MAX


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.name)
def test_a_habit_stays_below_its_ceiling_in_docstrings_comments_and_messages(habit, source_prose):
    is_rare = habit.rate(source_prose) <= habit.in_source
    assert is_rare, f"write {habit.advice}:\n" + "\n".join(habit.found(source_prose))


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.name)
def test_a_habit_stays_below_its_ceiling_in_documents(habit, document_prose):
    is_rare = habit.rate(document_prose) <= habit.in_documents
    assert is_rare, f"write {habit.advice}:\n" + "\n".join(habit.found(document_prose))
