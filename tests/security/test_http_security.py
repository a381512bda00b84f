"""HTTP ports speak TLS with a certificate, and renew the files that they were opened with."""

import pytest

from pipeline_broker.security.basic_users import BasicUsers
from pipeline_broker.security.http_security import NO_SECURITY, HttpSecurity
from pipeline_broker.security.tls import TlsContexts
from tests.security.test_tls import SERVER, stored


@pytest.fixture
def users(tmp_path):
    path = tmp_path / "users"
    path.write_text("ada:secret\n")
    return BasicUsers(path)


def test_ports_without_files_speak_http_and_renew_nothing():
    assert (NO_SECURITY.scheme, NO_SECURITY.files) == ("http", {})


def test_users_alone_leave_the_scheme_and_are_renewed(users):
    security = HttpSecurity(users=users)
    assert (security.scheme, security.files) == ("http", {"users of the HTTP ports": users})


def test_a_certificate_changes_the_scheme_and_is_renewed_with_the_users(tmp_path, users):
    contexts = TlsContexts(stored(tmp_path, SERVER))
    security = HttpSecurity(contexts, users)
    assert security.scheme == "https"
    assert security.files == {"certificate of the HTTP ports": contexts, "users of the HTTP ports": users}
