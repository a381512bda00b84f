"""The file with the token of the control endpoint."""

import os
import stat

import pytest

from pipeline_broker.node import control_token
from pipeline_broker.node.control_token import FILE_BYTES_MAX, token_of
from pipeline_broker.node.errors import StartError

TOKEN = "0123456789abcdef"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "token"


def written(path, content, mode=0o600):
    path.write_bytes(content)
    path.chmod(mode)
    return path


def refusal(path):
    with pytest.raises(StartError) as raised:
        token_of(path)
    (line,) = str(raised.value).splitlines()
    return line


def test_a_missing_file_is_created_for_its_owner_only_whatever_the_umask(path):
    before = os.umask(0)
    try:
        token = token_of(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text(encoding="ascii") == f"{token}\n"
    assert len(token) >= 43, "256 bits in base64"


def test_a_token_stays_until_its_file_is_deleted(path):
    first = token_of(path)
    assert token_of(path) == first
    path.unlink()
    assert token_of(path) != first


@pytest.mark.parametrize("content", [TOKEN, f"{TOKEN}\n", f" {TOKEN}\r\n"])
def test_a_token_of_the_user_is_used_without_the_space_around_it(path, content):
    assert token_of(written(path, content.encode())) == TOKEN


@pytest.mark.parametrize("content", [b"", b"\n", b"short", b"two words that are long", b"0123456789abcde\xe9"])
def test_a_file_without_a_token_is_refused(path, content):
    assert "has no token of 16 or more visible ASCII characters" in refusal(written(path, content))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_file_that_others_may_use_is_refused(path, mode):
    assert refusal(written(path, TOKEN.encode(), mode)).startswith(f"other users can read the token file {path}.")


def test_a_file_of_another_user_is_refused(path, monkeypatch):
    written(path, TOKEN.encode())
    monkeypatch.setattr(control_token, "ROOT_USER", -1)
    monkeypatch.setattr(control_token.os, "geteuid", lambda: os.getuid() + 1)
    assert refusal(path).startswith(f"other users can read the token file {path}.")


def test_a_file_that_is_too_long_is_refused(path):
    assert f"at most {FILE_BYTES_MAX} are allowed" in refusal(written(path, b"x" * (FILE_BYTES_MAX + 1)))


def test_a_pipe_is_refused_without_waiting_for_its_writer(path):
    os.mkfifo(path)
    assert "not a regular file" in refusal(path)


def test_a_folder_that_does_not_exist_is_one_line(tmp_path):
    path = tmp_path / "none" / "token"
    assert refusal(path) == (
        f"cannot use the token file {path}: No such file or directory. Choose another --control-token"
    )
