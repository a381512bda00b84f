"""A request bears a token in its header `Authorization`."""

import pytest

from pipeline_broker.web.bearer_tokens import bears_token

TOKEN = "a secret of some length"


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Bearer   {TOKEN} "])
def test_the_scheme_ignores_case_and_spaces_around_the_token(header):
    assert bears_token({"authorization": header}, TOKEN)


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer \xe9\udcff"],
)
def test_every_other_header_bears_no_token(header):
    assert not bears_token({"authorization": header}, TOKEN)


def test_a_request_without_the_header_bears_no_token():
    assert not bears_token({}, TOKEN)
