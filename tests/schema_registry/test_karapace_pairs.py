"""Compatibility by the tests of another registry."""

from tests.schema_registry.campaign import karapace


def test_each_pair_that_karapace_judges_gets_its_verdict_or_differs_for_a_listed_reason(capsys):
    assert karapace() == 0, capsys.readouterr().out
