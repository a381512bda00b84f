"""The key file is read again after each change, and at no other time."""

import os

import pytest

from tests.security.test_signed_tokens import ALICE, refused, validator
from tests.security.tokens import ec_key, jwk, rsa_key, token, write_keys


@pytest.fixture
def path(tmp_path):
    return write_keys(tmp_path / "jwks.json", jwk(rsa_key(), "r"), jwk(ec_key(), "e"))


def test_a_file_of_the_same_size_and_time_is_another_one_that_counts(path):
    """Such as a copy that kept its times and was renamed into place."""
    validate = validator(write_keys(path, jwk(rsa_key(), "r")))
    assert validate(token()) == ALICE
    before, other = path.stat(), write_keys(path.with_suffix(".new"), jwk(rsa_key(1), "r"))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert validate(token(rsa_key(1))) == ALICE
    refused(validate, token())


def test_a_file_that_is_damaged_in_its_place_leaves_no_keys(path, caplog):
    validate = validator(path)
    assert validate(token()) == ALICE
    path.write_text('{"keys": [')
    for _ in range(2):
        assert refused(validate, token()) == "its kid is unknown"
    assert len(caplog.messages) == 1
    caplog.clear()
    write_keys(path, jwk(rsa_key(), "r"))
    assert validate(token()) == ALICE


class Watched:
    """Counts the openings of a file; `after_open` is called after each."""

    def __init__(self, path):
        self.path, self.opened, self.after_open = path, 0, lambda: None
        self._open = os.open

    def open(self, path, *args, **kwargs):
        descriptor = self._open(path, *args, **kwargs)
        if path == self.path:
            self.opened += 1
            self.after_open()
        return descriptor


@pytest.fixture
def watched(path, monkeypatch):
    watched = Watched(path)
    monkeypatch.setattr(os, "open", watched.open)
    return watched


def test_a_file_that_is_replaced_while_it_is_read_is_read_again_for_the_next_token(path, watched):
    validate = validator(path)
    others = [jwk(rsa_key(1), "r"), jwk(rsa_key(2), "later")]

    def replace():
        if others:
            write_keys(path.with_suffix(".new"), others.pop(0)).replace(path)

    write_keys(path, jwk(rsa_key(), "r"), jwk(ec_key(), "e"), jwk(rsa_key(3), "s"))
    watched.after_open = replace
    assert validate(token()) == ALICE, "by the file that was opened"
    assert validate(token(rsa_key(1))) == ALICE
    assert validate(token(rsa_key(2), headers={"kid": "later"})) == ALICE
    assert watched.opened == 4


def test_a_file_is_read_once_for_each_change_even_if_damaged(path, watched):
    """Clients that send tokens, good or bad, cause no reads."""
    validate = validator(path)
    for _ in range(3):
        assert validate(token()) == ALICE
    assert watched.opened == 1
    path.write_text("{")
    for _ in range(3):
        refused(validate, token())
    assert watched.opened == 2
