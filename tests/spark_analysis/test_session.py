"""The user's Spark settings are kept; ours fill the gaps, and bind to loopback only on this machine."""

from __future__ import annotations

import pytest

from spark_analysis.session import effective_settings, is_local

pytest.importorskip("pyspark")

FILE = """
# a comment
spark.driver.memory    6g
spark.executor.memory=7g
spark.driver.host: analysis.example
! another comment
spark.hadoop.fs.s3a.access.key = a=b c
spark.master spark://there:7077
"""


@pytest.fixture
def environment(tmp_path):
    """The environment of a user with a `spark-defaults.conf`."""
    (tmp_path / "spark-defaults.conf").write_text(FILE)
    return {"SPARK_CONF_DIR": str(tmp_path)}


@pytest.fixture
def nothing(tmp_path):
    return {"SPARK_HOME": str(tmp_path)}


def test_without_user_settings_spark_runs_in_this_process_on_loopback(nothing):
    settings = effective_settings(None, "/scratch", environment=nothing)
    assert settings["spark.master"] == "local[*]"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.local.dir"] == "/scratch"
    assert settings["spark.driver.memory"] == "2g"


@pytest.mark.parametrize("master", ["spark://there:7077", "yarn", "k8s://https://there:443"])
def test_executors_elsewhere_reach_the_driver_at_its_own_address_and_are_sized_by_the_user(master, nothing):
    settings = effective_settings(master, "/scratch", environment=nothing)
    assert settings["spark.master"] == master
    assert not [
        name for name in settings if name.startswith(("spark.driver.host", "spark.driver.bind", "spark.executor"))
    ]
    assert not {"spark.local.dir", "spark.sql.shuffle.partitions", "spark.sql.warehouse.dir"} & settings.keys()


def test_settings_in_the_users_file_are_not_set_again(environment):
    settings = effective_settings(None, "/scratch", environment=environment)
    assert settings["spark.master"] == "spark://there:7077"
    users = {"spark.driver.memory", "spark.executor.memory", "spark.driver.host", "spark.hadoop.fs.s3a.access.key"}
    assert not users & settings.keys()
    assert effective_settings("local[2]", "/s", environment=environment)["spark.master"] == "local[2]"
    assert "spark.driver.host" not in effective_settings("local[2]", "/s", environment=environment)


def test_settings_of_a_job_win_over_those_of_the_file(environment):
    settings = effective_settings("local[2]", "/s", {"spark.driver.memory": "1g"}, environment)
    assert settings["spark.driver.memory"] == "1g"


@pytest.mark.parametrize(("input_bytes", "optimises"), [(0, False), (64 << 20, False), (200 << 20, True), (None, True)])
def test_java_optimises_for_large_input(input_bytes, optimises, nothing):
    settings = effective_settings(None, "/scratch", environment=nothing, input_bytes=input_bytes)
    assert ("TieredStopAtLevel=1" not in settings["spark.driver.defaultJavaOptions"]) == optimises


def test_a_cluster_inside_this_machine_is_local():
    assert all(is_local(master) for master in ("local", "local[2]", "local-cluster[2,1,512]"))
    assert not any(is_local(master) for master in ("spark://local:7077", "yarn", "k8s://https://local:443"))
