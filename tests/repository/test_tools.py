import pytest

from tests.required import require_tool


@pytest.fixture
def no_programs(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("REQUIRE_TOOLS", raising=False)


@pytest.mark.usefixtures("no_programs")
def test_a_missing_program_skips_and_names_its_package():
    with pytest.raises(pytest.skip.Exception, match="strace of the Debian package strace"):
        require_tool("strace")


@pytest.mark.usefixtures("no_programs")
def test_a_missing_program_fails_where_tools_are_required(monkeypatch):
    monkeypatch.setenv("REQUIRE_TOOLS", "1")
    with pytest.raises(pytest.fail.Exception, match="chromedriver of the Debian package chromium-driver"):
        require_tool("chromedriver")


@pytest.mark.usefixtures("no_programs")
def test_a_program_that_is_there_is_found(tmp_path):
    program = tmp_path / "strace"
    program.touch(mode=0o755)
    assert require_tool("strace") == str(program)
