"""The table in docs/guides/access-control.md equals the tested rights."""

from tests.apis.access_table import table
from tests.conftest import ROOT


def test_the_table_of_rights_is_that_of_the_tests():
    assert table() in (ROOT / "docs/guides/access-control.md").read_text(encoding="utf-8")
