"""The program of docs/reference/trace-format.md works as documented, on traces of every kind."""

import re
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]

DOCUMENT = (Path(__file__).parents[2] / "docs/reference/trace-format.md").read_text(encoding="utf-8")
OPENING = 'load_run("out/compare")'


def test_the_program_of_the_document_shows_stages_and_no_violation(spark, converted, capsys):
    (program,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert OPENING in program

    exec(program.replace(OPENING, "load_run(directory, session)"), {"directory": converted, "session": spark})

    stages, audit = capsys.readouterr().out.split("\n\n")[:2]
    assert "CommitWait" in stages
    assert audit.count("\n") == 3, "a header and no row"
