"""Missing parts of Spark's Kafka connector are one line of error, and a failed download leaves no file."""

import pytest

from spark_analysis.errors import SparkError
from spark_analysis.live.connector import connector_jars


def environment(tmp_path, script=None):
    programs = tmp_path / "bin"
    programs.mkdir()
    if script is not None:
        maven = programs / "mvn"
        maven.write_text(f"#!/bin/sh\n{script}\n")
        maven.chmod(0o755)
    return {"PATH": f"{programs}:/bin:/usr/bin" if script else str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_without_maven_the_package_is_named(tmp_path):
    with pytest.raises(SparkError, match="Install the Debian package maven"):
        connector_jars(environment(tmp_path))


def test_the_error_has_mavens_reason_and_no_file_remains(tmp_path):
    with pytest.raises(SparkError, match=r"could not download Spark's Kafka connector: \[ERROR\] no such artifact"):
        connector_jars(environment(tmp_path, "echo '[ERROR] no such artifact'; exit 1"))
    assert list((tmp_path / "cache/pipeline-broker").iterdir()) == []


def test_jars_are_downloaded_once(tmp_path):
    find = "for word; do case $word in -DoutputDirectory=*) into=${word#*=};; esac; done"
    copies = f'{find}; mkdir "$into"; touch "$into/a.jar" "$into/b.jar"'
    found = environment(tmp_path, f"{copies}; echo once >> {tmp_path}/calls")
    first = connector_jars(found)
    assert [path.rsplit("/", 1)[1] for path in first.split(",")] == ["a.jar", "b.jar"]
    assert connector_jars(found) == first
    assert (tmp_path / "calls").read_text() == "once\n"
