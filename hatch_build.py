"""What a wheel has beside the sources: the commit that it was made from, and compiled modules where it is asked for.

Rules of this file: hatchling loads it, and it imports no compiler before it compiles. The same sources are compiled
that the pure wheel holds, all modules of the list in pyproject.toml or none. What a build leaves in `build` makes the
next one faster, and nothing is ever written beside the sources.

    PIPELINE_BROKER_COMPILE=1 hatchling build --target wheel      # or: make wheel
"""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OPTIMIZATION = "1"
"""gcc's level: 2 takes half as long again, see docs/evidence/performance.md."""
LIBRARY = "pipeline_broker"
"""All modules are in one library, `pipeline_broker__mypyc`; what lies in the packages only leads there."""


COMMIT_FILE = "pipeline_broker/_commit.txt"
"""Read by `pipeline-broker --version`; an sdist has it, so a wheel that is made of that has the same."""
COMPILERS = ["mypy>=2.4", "setuptools>=61"]


class BuildHook(BuildHookInterface[Any]):
    """The hook `custom` of pyproject.toml."""

    def dependencies(self) -> list[str]:
        """What a build needs: the compilers, and the packages whose types they read."""
        return [*COMPILERS, *self.metadata.core.dependencies] if _is_compiling() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the commit and compile, unless the install is an editable one, whose sources are to be changed."""
        if version == "editable":
            return
        root = Path(self.root)
        if not (root / COMMIT_FILE).exists() and (commit := _commit_of(root)):
            path = root / "build" / "commit.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{commit}\n", encoding="ascii")
            build_data["force_include"][str(path)] = COMMIT_FILE
        if self.target_name != "wheel" or not _is_compiling():
            return
        folder = root / "build" / "mypyc"
        sources = [f"{name.replace('.', '/')}.py" for name in self.config["modules"]]
        for path in compiled(root, sources, folder):
            build_data["force_include"][str(path)] = str(path.relative_to(folder / "lib"))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def _is_compiling() -> bool:
    return os.environ.get("PIPELINE_BROKER_COMPILE", "") not in {"", "0"}


def _commit_of(root: Path) -> str:
    """The commit that a tree stands at, with `-dirty` where it has changes; empty where it is no repository of git."""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603 - ours
    except (OSError, subprocess.CalledProcessError):
        return ""


def compiled(root: Path, sources: list[str], folder: Path) -> list[Path]:
    """Compile sources, paths in `root`, as one library; the files that were made, all of them in `folder`/lib."""
    from mypyc.build import mypycify  # noqa: PLC0415 - a pure wheel is built without it
    from setuptools import Distribution  # noqa: PLC0415 - see above

    cache, library = folder / "cache", folder / "lib"
    shutil.rmtree(library, ignore_errors=True)
    before = Path.cwd()
    os.chdir(root)  # mypy names modules by their paths
    try:
        extensions = mypycify(
            ["--config-file", "pyproject.toml", "--cache-dir", str(cache), *sources],
            opt_level=OPTIMIZATION,
            debug_level="0",  # a traceback shows lines of Python without it
            multi_file=True,  # a compiler's memory is that of one module, and only what changed is compiled again
            group_name=LIBRARY,
            target_dir=str(folder / "c"),
        )
        command = Distribution({"name": LIBRARY, "ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(library), str(folder / "o")
        command.ensure_finalized()
        command.build_extension = partial(_build_extension, command, command.build_extension)
        command.run()
    finally:
        os.chdir(before)
    return [path for path in library.rglob("*") if path.is_file()]


def _build_extension(command: Any, link: Any, extension: Any) -> None:
    """Compile the sources of an extension on all cores, those that changed, and link."""
    headers = max((path.stat().st_mtime for path in map(Path, extension.depends)), default=0.0)

    def compile_one(source: str) -> str:
        (target,) = command.compiler.object_filenames([source], output_dir=command.build_temp)
        if not Path(target).exists() or Path(target).stat().st_mtime < max(Path(source).stat().st_mtime, headers):
            command.compiler.compile(
                [source],
                output_dir=command.build_temp,
                include_dirs=extension.include_dirs,
                extra_postargs=extension.extra_compile_args,
            )
        return str(target)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        extension.extra_objects = list(threads.map(compile_one, extension.sources))
    extension.sources = []
    link(extension)
