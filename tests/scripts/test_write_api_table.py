"""The document of what is compatible names every API that is served, in the versions that are served."""

from scripts.write_api_table import DOCUMENT, with_table


def test_the_table_of_apis_is_current():
    """Where it is not: python scripts/write_api_table.py."""
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_table(text) == text
