"""The user's Spark settings are found in the places where Spark reads them, and win over those of our session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_analysis.session import effective_settings
from spark_analysis.user_settings import has_java_options, user_settings
from tests.short_java import SHORT_JAVA

pytest.importorskip("pyspark")

ROOT = Path(__file__).parents[2]
OURS = "-XX:+UseParallelGC"
PROGRAM = """
import json
from spark_analysis.session import spark_session

with spark_session() as spark:
    settings = dict(spark.sparkContext.getConf().getAll())
    print(json.dumps([spark.range(10).count(), settings]))
"""
USERS = r"""
spark.master                   local[1]
spark.driver.memory            700m
spark.driver.extraJavaOptions  -XX:+UseG1GC \
                               -Dsome=thing
spark.eventLog.enabled         true
spark.eventLog.dir             events
spark.sql.session.timeZone     Asia/Kathmandu
"""


def settings_of(tmp_path, text="", **environment):
    (tmp_path / "spark-defaults.conf").write_text(text)
    return user_settings({"SPARK_CONF_DIR": str(tmp_path), **environment})


def java_of(tmp_path, text="", **environment):
    (tmp_path / "spark-defaults.conf").write_text(text)
    found = effective_settings(None, "/scratch", environment={"SPARK_CONF_DIR": str(tmp_path), **environment})
    return found["spark.driver.defaultJavaOptions"]


def test_a_line_of_the_file_is_a_setting_and_continues_after_a_backslash(tmp_path):
    found = settings_of(tmp_path, USERS + "# spark.a b\n! spark.c d\nspark.e=f=g\nspark.h: i\n\nspark.empty\n")
    assert found["spark.driver.extraJavaOptions"] == "-XX:+UseG1GC -Dsome=thing"
    assert (found["spark.e"], found["spark.h"]) == ("f=g", "i")
    assert not {"spark.a", "spark.c"} & found.keys()


def test_arguments_for_spark_submit_win_over_the_file(tmp_path):
    arguments = "--master local[3] --driver-memory=1g -c spark.e=x --conf 'spark.f=y z' --jars a.jar pyspark-shell"
    found = settings_of(tmp_path, "spark.e f\nspark.master yarn", PYSPARK_SUBMIT_ARGS=arguments)
    assert found == {
        "spark.master": "local[3]",
        "spark.driver.memory": "1g",
        "spark.e": "x",
        "spark.f": "y z",
    }
    for wrong in ("'", "--master", "--conf"):
        assert settings_of(tmp_path, "spark.e f", PYSPARK_SUBMIT_ARGS=wrong) == {"spark.e": "f"}


def test_the_file_wins_over_a_variable(tmp_path):
    assert settings_of(tmp_path, SPARK_DRIVER_MEMORY="3g") == {"spark.driver.memory": "3g"}
    assert settings_of(tmp_path, "spark.driver.memory 4g", SPARK_DRIVER_MEMORY="3g") == {"spark.driver.memory": "4g"}


@pytest.mark.parametrize(
    ("text", "environment"),
    [
        ("spark.driver.extraJavaOptions -XX:+UseG1GC", {}),
        ("spark.driver.extraJavaOptions -Da=b -XX:-UseParallelGC", {}),
        ("", {"JDK_JAVA_OPTIONS": "-XX:+UseZGC"}),
        ("", {"JAVA_TOOL_OPTIONS": "-Xint"}),
        ("", {"SPARK_SUBMIT_OPTS": "-XX:+UseSerialGC"}),
        ("", {"PYSPARK_SUBMIT_ARGS": "--driver-java-options '-XX:+UseSerialGC' pyspark-shell"}),
        ("", {"PYSPARK_SUBMIT_ARGS": '--conf spark.driver.extraJavaOptions="-Da=b -XX:+UseG1GC" pyspark-shell'}),
    ],
)
def test_java_options_of_the_user_replace_ours(tmp_path, text, environment):
    assert "-X" not in java_of(tmp_path, text, **environment)


def test_other_settings_of_the_user_keep_our_java_options(tmp_path):
    assert OURS in java_of(tmp_path, "spark.driver.extraJavaOptions -Dfile=-Xmx\nspark.executor.extraJavaOptions -Xint")
    assert not has_java_options({}, {})


@pytest.mark.spark
def test_a_session_runs_with_the_users_collector_memory_master_and_event_log(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/spark-defaults.conf").write_text(USERS)
    (tmp_path / "events").mkdir()
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path / "conf"), "PYTHONPATH": str(ROOT)}
    environment["JDK_JAVA_OPTIONS"] = SHORT_JAVA
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    count, settings = json.loads(done.stdout)
    assert count == 10
    for name, value in user_settings(environment).items():
        assert value in settings[name]
    assert OURS not in json.dumps(settings)
    assert {path.name for path in tmp_path.iterdir()} - {"artifacts"} == {"conf", "events"}  # Spark 4.0.0 makes one
    assert list((tmp_path / "events").iterdir())
