"""Cross-site requests are refused by one rule, on every port."""

import pytest

from pipeline_broker.web.strangers import SameOriginCheck

PLACE = SameOriginCheck(host="127.0.0.1", port=80, names=("broker.example",), any_address=False)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "127.0.0.1:80"},
        {"host": "LOCALHOST:80"},
        {"host": "broker.example:80"},
        {"host": "localhost:80", "origin": "http://localhost:80"},
        {"host": "localhost:80", "sec-fetch-site": "same-origin"},
        {"host": "localhost:80", "sec-fetch-site": "none"},
    ],
)
def test_own_pages_and_clients_are_allowed(headers):
    assert PLACE.refusal(headers) is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "evil.example:80"},
        {"host": "10.0.0.1:80"},
        {"host": "127.0.0.1:81"},
        {"host": "127.0.0.1:80, evil.example"},
        {"host": "localhost:80", "origin": "null"},
        {"host": "localhost:80", "origin": "http://localhost:81"},
        {"host": "localhost:80", "origin": "https://localhost:80"},
        {"host": "localhost:80", "origin": "http://localhost:80, http://evil.example"},
        {"host": "localhost:80", "sec-fetch-site": "cross-site"},
        {"host": "localhost:80", "sec-fetch-site": "same-site"},
    ],
)
def test_cross_site_requests_are_refused(headers):
    assert PLACE.refusal(headers)


def test_a_page_may_be_opened_from_a_link_but_not_by_another_name():
    assert PLACE.refusal({"host": "localhost:80", "sec-fetch-site": "cross-site"}, is_page=True) is None
    assert PLACE.refusal({"host": "evil.example", "sec-fetch-site": "cross-site"}, is_page=True)


def test_addresses_are_accepted_with_forwarded_ports_and_without_a_host():
    place = SameOriginCheck(host="0.0.0.0", needs_host=False)
    assert [place.refusal(headers) for headers in ({}, {"host": "10.0.0.1:9"}, {"host": "[::1]"})] == [None] * 3
    assert place.refusal({"origin": "http://evil.example"})
