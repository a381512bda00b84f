"""Each change over HTTP is one line of the audit log, whatever its names contain."""

import logging

import pytest

from pipeline_broker.web.audit import AUDIT_LOGGER, DETAILS_CHARACTERS_MAX, log_change
from pipeline_broker.web.messages import HttpRequest

REQUEST = HttpRequest(method="POST", path="/x", query={}, headers={}, peer="10.0.0.1")


@pytest.mark.parametrize(
    ("principal", "details", "refusal", "line"),
    [
        ("User:ada", {"topic": "t"}, None, 'create {"topic": "t"} by User:ada from 10.0.0.1: done'),
        ("", "/a", "no room", 'create "/a" by anyone from 10.0.0.1: refused: no room'),
        ("User:a\nb", "\u202e\n", "x\ny", r'create "\u202e\n" by User:a\nb from 10.0.0.1: refused: x\ny'),
    ],
)
def test_a_change_is_a_line(principal, details, refusal, line, caplog):
    caplog.set_level(logging.INFO, AUDIT_LOGGER)
    log_change(REQUEST, principal, "create", details, refusal)
    assert caplog.messages == [line]


def test_the_line_is_bounded(caplog):
    caplog.set_level(logging.INFO, AUDIT_LOGGER)
    log_change(REQUEST, "User:ada", "create", "x" * 100_000, "y" * 100_000)
    assert len(caplog.messages[0]) < 2 * DETAILS_CHARACTERS_MAX + 100


def test_operators_read_it_without_a_change_of_levels():
    assert logging.getLogger(AUDIT_LOGGER).level == logging.INFO
