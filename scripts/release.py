"""Make a release: `make release VERSION=0.2.0`.

The changelog is made from changelog.d, the version is set, both are committed, the sdist and the wheel are built into
dist/, and checked in an empty environment of every Python of this machine. Only then the commit is tagged; where
anything fails, the commit is taken back. Nothing is pushed or uploaded.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYPROJECT = ROOT / "pyproject.toml"
DIST = ROOT / "dist"
VERSION = re.compile(r"\d+\.\d+\.\d+")
LINE = re.compile(r'^version = "(.*)"$', re.MULTILINE)
PYTHON_MIN = (3, 11)
SMOKE_TEST = """
import subprocess
import sys


def test_the_fixtures_are_found(kafka_broker, kafka_topic):
    kafka_broker.produce(kafka_topic, "value", key="key")
    kafka_broker.assert_records(kafka_topic, ["value"])


def test_the_commands_reach_a_broker(kafka_broker, kafka_topic):
    def run(*arguments, given=""):
        command = [sys.executable, "-P", "-m", "pipeline_broker", *arguments, "-b", kafka_broker.bootstrap_servers]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=True, timeout=60).stdout

    run("produce", kafka_topic, given="one\\ntwo\\n")
    assert run("consume", kafka_topic, "--exit") == "one\\ntwo\\n"
"""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Standard output of a command; one that fails ends the release."""
    result = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.stdout


def reasons_against(version: str, now: str, changes: str, fragments: list[Path]) -> list[str]:
    """Why a release cannot be made.

    Args:
        version: wanted.
        now: the version that pyproject.toml has.
        changes: what `git status --porcelain` prints.
        fragments: of the changelog.
    """
    found = []
    if not VERSION.fullmatch(version):
        found.append(f"VERSION={version} is none: three numbers, such as 0.2.0")
    elif tuple(map(int, version.split("."))) <= tuple(map(int, now.split("."))):
        found.append(f"{version} is not above {now}, which pyproject.toml has")
    if changes:
        found.append("there are changes that are not committed")
    if not fragments:
        found.append("changelog.d has no changes")
    return found


def pythons() -> list[Path]:
    """Every Python of this machine that the package may run on, one of each minor version."""
    found = {}
    candidates = [Path(sys.executable), *(Path.home() / ".pyenv" / "versions").glob("*/bin/python")]
    candidates += [Path(path) for minor in range(11, 20) if (path := shutil.which(f"python3.{minor}"))]
    for python in candidates:
        code = "import sys; print(*sys.version_info[:2])"
        result = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        if not result.returncode and (minor := tuple(map(int, result.stdout.split()))) >= PYTHON_MIN:
            found.setdefault(minor, python)
    return [found[minor] for minor in sorted(found)]


def check(python: Path, package: Path) -> str:
    """Install a wheel or an sdist into an empty environment and try it; what its `--version` says."""
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        folder = Path(name)
        run(python, "-m", "venv", folder / "environment")
        inside = folder / "environment" / "bin"
        run(inside / "python", "-m", "pip", "install", "--quiet", package, "pytest>=8,<9.2", cwd=folder)
        (folder / "test_smoke.py").write_text(SMOKE_TEST, encoding="utf-8")
        run(inside / "python", "-m", "pytest", "-q", "test_smoke.py", cwd=folder)
        return run(inside / "pipeline-broker", "--version", cwd=folder).strip()


def build(version: str) -> list[Path]:
    """The sdist and the wheel in dist/."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build")
    return [DIST / f"pipeline_broker-{version}.tar.gz", DIST / f"pipeline_broker-{version}-py3-none-any.whl"]


def write(version: str) -> None:
    """Set the version and make the changelog, as one commit."""
    PYPROJECT.write_text(
        LINE.sub(f'version = "{version}"', PYPROJECT.read_text(encoding="utf-8"), count=1), encoding="utf-8"
    )
    run(sys.executable, "-m", "towncrier", "build", "--yes", "--version", version)
    run("git", "add", "--all", "pyproject.toml", "CHANGELOG.md", "changelog.d")
    run("git", "commit", "--quiet", "--message", f"Release {version}")


def release(version: str) -> None:
    """See the top of the file."""
    (now,) = LINE.findall(PYPROJECT.read_text(encoding="utf-8"))
    fragments = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    if reasons := reasons_against(version, now, run("git", "status", "--porcelain"), fragments):
        raise SystemExit("\n".join(reasons))
    write(version)
    try:
        sdist, wheel = build(version)
        found = pythons()
        for python in found:
            print(f"{wheel.name}, {python}: {check(python, wheel)}", flush=True)
        print(f"{sdist.name}, {found[0]}: {check(found[0], sdist)}", flush=True)
    except BaseException:
        run("git", "reset", "--quiet", "--keep", "HEAD~1")
        raise
    run("git", "tag", f"v{version}")
    print(f"{version} is committed and tagged; dist/ has what is to be uploaded")


if __name__ == "__main__":
    release(sys.argv[1] if len(sys.argv) > 1 else "")
