"""Downloads of jars that Spark lacks, with Maven into the user's cache: once, and all of them or none.

Maven follows the mirrors in its own settings.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_analysis.errors import SparkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FETCH_SECONDS_MAX: Final = 600
ALL_GROUPS: Final = ("*",)


class Jar(NamedTuple):
    group: str
    artifact: str
    version: str
    excluded_groups: tuple[str, ...] = ALL_GROUPS
    """Maven groups; their dependencies are left out."""


def fetched_jars(name: str, noun: str, wanted: Iterable[Jar], environment: Mapping[str, str] = os.environ) -> str:
    """Return the paths of the jars, as `spark.jars` expects them. Download them first if they are not in the cache.

    Args:
        name: the name of the folder in the cache, which must contain the version of the jars.
        noun: the name of the jars in error messages.
        environment: supplies PATH, HOME and XDG_CACHE_HOME.

    Raises:
        SparkError: the jars are not in the cache, and Maven is missing or failed.
    """
    home = Path(environment.get("HOME") or Path.home())
    jars = Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "pipeline-broker" / name
    if not jars.is_dir():
        _fetch(jars, noun, _project(wanted), environment)
    return ",".join(str(jar) for jar in sorted(jars.glob("*.jar")))


def _fetch(jars: Path, noun: str, project: str, environment: Mapping[str, str]) -> None:
    maven = shutil.which("mvn", path=environment.get("PATH", ""))
    if maven is None:
        raise SparkError(
            f"cannot download {noun}: Maven is missing. Install the Debian package maven, or put mvn on PATH"
        )
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=jars.parent) as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(project, encoding="utf-8")
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={work}/jars"]
        try:
            done = subprocess.run(  # noqa: S603 - the user's own Maven
                command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False, env=dict(environment)
            )
        except subprocess.TimeoutExpired:
            raise SparkError(f"Maven did not download {noun} within {FETCH_SECONDS_MAX} s. Try again") from None
        if done.returncode:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            reason = lines[0] if lines else f"it ended with exit code {done.returncode}"
            raise SparkError(f"Maven could not download {noun}: {reason}")
        with contextlib.suppress(OSError):  # another process has put them there
            (Path(work) / "jars").rename(jars)


def _project(wanted: Iterable[Jar]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version><exclusions>{_exclusions(jar)}</exclusions></dependency>"
        for jar in wanted
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>local</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def _exclusions(jar: Jar) -> str:
    return "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>*</artifactId></exclusion>" for group in jar.excluded_groups
    )
