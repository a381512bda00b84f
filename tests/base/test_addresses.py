"""Normalized texts of addresses."""

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.addresses import ADDRESS_CHARS_MAX, normal_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8:0:0:0:0:0:A", "2001:db8::a"),
        ("0:0:0:0:0:ffff:c000:201", "192.0.2.1"),
        ("::FFFF:192.0.2.1", "192.0.2.1"),
        ("FE80:0:0:0:0:0:0:1%eth7", "fe80::1%eth7"),
        ("fe80::1%999999999", "fe80::1%999999999"),
        ("192.0.2.1", "192.0.2.1"),
        ("*", None),
        ("localhost", None),
        ("192.0.2.01", None),
        ("", None),
    ],
)
def test_addresses_are_normalized_as_connections_show_them(text, expected):
    assert normal_address(text) == expected


def test_interface_numbers_become_names():
    number, name = socket.if_nameindex()[0]
    assert normal_address(f"fe80:0:0:0:0:0:0:1%{number}") == f"fe80::1%{name}" == normal_address(f"fe80::1%{name}")


def test_a_long_text_is_not_an_address():
    zone = "%" + "x" * (ADDRESS_CHARS_MAX - 4)
    assert normal_address(f"::1{zone}") is not None
    assert normal_address(f"::1{zone}x") is None


@given(st.ip_addresses(v=6))
def test_short_and_long_forms_of_an_address_are_equal(address):
    forms = {normal_address(form) for form in (str(address), address.exploded, address.exploded.upper())}
    assert len(forms) == 1
    assert ipaddress.ip_address(*forms) in (address, address.ipv4_mapped)
