"""The user's Spark settings, which override those of the analysis.

Spark itself reads `spark-defaults.conf`, the environment and, in PySpark, `PYSPARK_SUBMIT_ARGS`. This module reads them
to avoid conflicts: Java does not start with two garbage collectors, for example.
"""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["has_java_options", "user_settings"]

_SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
_BY_ARGUMENT: Final = {
    "--master": "spark.master",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--name": "spark.app.name",
}
"""Settings that spark-submit takes as arguments."""
_CONF: Final = frozenset({"--conf", "-c"})
_BY_VARIABLE: Final = {"SPARK_DRIVER_MEMORY": "spark.driver.memory"}
_JAVA_SETTINGS: Final = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
_JAVA_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


def user_settings(environment: Mapping[str, str]) -> dict[str, str]:
    by_variable = {setting: environment[name] for name, setting in _BY_VARIABLE.items() if environment.get(name)}
    return by_variable | _from_file(environment) | _from_arguments(environment.get(_SUBMIT_ARGUMENTS, ""))


def has_java_options(settings: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Return whether the user passes options such as `-XX:+UseG1GC` to the driver's Java."""
    given = [settings.get(name, "") for name in _JAVA_SETTINGS] + [
        environment.get(name, "") for name in _JAVA_VARIABLES
    ]
    return any(word.lstrip("'\"").startswith("-X") for text in given for word in text.split())


def _from_file(environment: Mapping[str, str]) -> dict[str, str]:
    """Read `spark-defaults.conf`, a Java properties file, from the folder where Spark expects it."""
    home = environment.get("SPARK_HOME") or Path(import_module("pyspark").__file__ or "").parent
    folder = Path(environment.get("SPARK_CONF_DIR") or Path(home) / "conf")
    try:
        text = (folder / "spark-defaults.conf").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    lines = re.sub(r"\\\r?\n[ \t]*", "", text).splitlines()  # a backslash continues a line
    found = (re.match(r"\s*([^#!\s=:][^\s=:]*)\s*[=:\s]\s*(.*?)\s*$", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def _from_arguments(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        words = iter(shlex.split(text))
    except ValueError:
        return {}  # Spark reports the error
    for word in words:
        argument, equals, value = word.partition("=")
        if argument in _BY_ARGUMENT or argument in _CONF:
            value = value if equals else next(words, "")
            name, _, setting = value.partition("=") if argument in _CONF else (_BY_ARGUMENT[argument], "", value)
            if setting:
                found[name] = setting
    return found
