"""The users of the HTTP ports, from a file."""

import base64
import datetime as dt

import pytest

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.security.basic_users import FILE_BYTES_MAX, USERS_MAX, BasicUsers, HttpUser

NOW = dt.datetime.now(dt.UTC)


def header(credentials, scheme="Basic"):
    return f"{scheme} {base64.b64encode(credentials.encode()).decode()}"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "users"
    path.write_text("# operators\n\nada:secret:with:colons\nbob:hunter2 \u00e9\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("authorization", "is_known"),
    [
        (header("ada:secret:with:colons"), True),
        (header("ada:secret:with:colons", "basic"), True),
        (header("bob:hunter2 \u00e9"), True),
        (header("ada:secret"), False),
        (header("ada:secret:with:colons "), False),
        (header("bob:secret:with:colons"), False),
        (header("ada"), False),
        (header("# operators"), False),
        (header(""), False),
        (header("ada:secret:with:colons", "Bearer"), False),
        ("Basic", False),
        ("Basic !!!", False),
        ("Basic \u00e9", False),
        ("", False),
    ],
)
def test_a_request_needs_the_name_and_password_of_a_user(file, authorization, is_known):
    assert (BasicUsers(file).find(authorization) is not None) == is_known


def test_a_user_may_have_two_passwords(file):
    file.write_text("ada:old\nada:new\n")
    users = BasicUsers(file)
    assert users.find(header("ada:old")) == users.find(header("ada:new")) == HttpUser("ada")


def test_a_user_has_the_role_above_its_line(file):
    file.write_text("ada:a\n[read-only]\nbob:b\n # no comment:c\n[admin] \neve:e\n")
    users = BasicUsers(file)
    found = [users.find(header(each)) for each in ("ada:a", "bob:b", " # no comment:c", "eve:e")]
    assert found == [
        HttpUser("ada", False),
        HttpUser("bob", True),
        HttpUser(" # no comment", True),
        HttpUser("eve", False),
    ]
    assert [user.refusal for user in found[:2]] == [None, "the user bob is read-only, so it cannot change anything"]


def test_the_header_of_the_first_user_is_allowed(file):
    users = BasicUsers(file)
    assert users.authorization == header("ada:secret:with:colons")
    assert users.find(users.authorization) == HttpUser("ada")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("ada", "line 1 is not of the form NAME:PASSWORD"),
        ("# x\nada:a\n:secret", "line 3 is not of the form NAME:PASSWORD"),
        ("ada:", "line 1 is not of the form NAME:PASSWORD"),
        ("[writer]\nada:a", "line 1 is not a role. Write [admin] or [read-only]"),
        ("[ada:a]", "line 1 is not a role. Write [admin] or [read-only]"),
        ("ada:a\nbob:b\n[read-only]\nada:a", "line 4 gives a user a second role"),
        ("[admin]\n", "the file has 0 users. Write 1 to 100 lines NAME:PASSWORD"),
        ("", "the file has 0 users. Write 1 to 100 lines NAME:PASSWORD"),
        ("a:b\n" * (USERS_MAX + 1), "the file has 101 users. Write 1 to 100 lines NAME:PASSWORD"),
        ("a:b\n".ljust(FILE_BYTES_MAX + 1, "#"), f"it has {FILE_BYTES_MAX + 1} bytes, but at most"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line_without_its_secrets(file, content, reason):
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        BasicUsers(file)
    assert str(caught.value).startswith(f"--http-users: {file}: {reason}")
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_name_must_be_utf_8_since_it_becomes_a_principal(file):
    file.write_bytes(b"ad\xe9:secret\n")
    with pytest.raises(ConfigError, match="line 1 has a name that is not UTF-8"):
        BasicUsers(file)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        BasicUsers(tmp_path / "users")


def test_a_changed_file_is_read_once_and_a_damaged_one_changes_nothing(file):
    users = BasicUsers(file)
    assert not users.reload_changed()
    file.write_text("eve:new\n")
    assert users.reload_changed()
    assert not users.reload_changed()
    assert [users.find(header(each)) for each in ("eve:new", "ada:secret:with:colons")] == [HttpUser("eve"), None]
    file.write_text("damaged")
    with pytest.raises(ConfigError):
        users.reload_changed()
    assert not users.reload_changed()
    assert users.find(header("eve:new"))


def test_a_file_that_other_users_may_read_is_warned_of(file):
    assert BasicUsers(file).warning(NOW) is None
    file.chmod(0o640)
    assert BasicUsers(file).warning(NOW) == f"other users may read {file} (mode 0640). Run chmod 600 {file}"
