"""Who may import whom: the rooms of the design, read from the source and not from what ran."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import e3rg

ROOT = Path(e3rg.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def imports_of(source: str, package: str) -> Iterator[str]:
    """Dotted names that a module imports anywhere in it, relative ones resolved.

    Names imported from a package come with the package, as they may be modules of it.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def broken(relative: str, source: str) -> list[str]:
    """The imports of one file (path under the package, with slashes) that its room forbids."""
    *folders, file = relative.split("/")
    package = ".".join(["e3rg", *folders])
    names = sorted(set(imports_of(source, package)))
    wrong = []
    for name in names:
        # up.py starts Ray for `e3rg up`.
        if within(name, "ray") and file not in {"app.py", "up.py", "deployment.py"}:
            wrong.append(f"{name}: only app.py, up.py and deployment.py import Ray")
        if within(name, "fastapi", "starlette") and folders[:1] != ["gateway"]:
            wrong.append(f"{name}: only gateway/ imports FastAPI")
        if folders[:1] == ["stages"]:
            if within(name, "e3rg.gateway"):
                wrong.append(f"{name}: a stage does not know the gateway")
            stage = folders[1] if len(folders) > 1 else None
            other = (
                name.split(".")[2] if within(name, "e3rg.stages") and name.count(".") > 1 else ""
            )
            # Files beside the stages (stages/*.py) are shared by them.
            if stage and (ROOT / "stages" / other).is_dir() and other not in {"", stage}:
                wrong.append(f"{name}: stages do not import each other")
        if folders[:1] == ["turn"]:
            if within(name, "e3rg.gateway"):
                wrong.append(f"{name}: a turn does not know the gateway")
            parts = name.split(".")
            if within(name, "e3rg.stages") and (len(parts) < 4 or parts[3] != "engine"):
                # `from e3rg.stages.memory import engine` names the engine module, and with it the
                # bare package, which is then allowed.
                packages = {".".join(n.split(".")[:-1]) for n in names if n.endswith(".engine")}
                if name not in packages:
                    wrong.append(f"{name}: a turn knows stages by their engine protocols only")
    return wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_rooms_hold(path: Path) -> None:
    relative = path.relative_to(ROOT).as_posix()
    assert broken(relative, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("relative", "source"),
    [
        ("stages/memory/milvus.py", "from e3rg.stages.speech.engine import Voice"),
        ("stages/memory/milvus.py", "from e3rg.stages import speech"),
        ("stages/memory/milvus.py", "from ..speech import engine"),
        ("stages/memory/milvus.py", "def late():\n    import e3rg.gateway.http"),
        ("stages/memory/milvus.py", "import ray"),
        ("turn/conductor.py", "from e3rg.stages.memory.milvus import MilvusMemory"),
        ("turn/conductor.py", "from e3rg.stages.deployment import StageClient"),
        ("turn/conductor.py", "from e3rg.stages.memory import milvus"),
        ("turn/conductor.py", "import ray.serve"),
        ("turn/conductor.py", "from e3rg.gateway import protocols"),
        ("media/probe.py", "from fastapi import UploadFile"),
        ("admission/leases.py", "if True:\n    from starlette.types import ASGIApp"),
    ],
)
def test_the_check_sees_what_breaks_a_room(relative: str, source: str) -> None:
    assert broken(relative, source) != []


@pytest.mark.parametrize(
    ("relative", "source"),
    [
        ("stages/memory/milvus.py", "from e3rg.stages.memory.engine import Episode"),
        ("stages/memory/milvus.py", "from .engine import Episode"),
        (
            "stages/memory/deployment.py",
            "from e3rg.stages.deployment import StageClient\nimport ray",
        ),
        ("turn/conductor.py", "from e3rg.stages.memory.engine import MemoryEngine"),
        ("turn/conductor.py", "from e3rg.stages.memory import engine"),
        ("gateway/http.py", "from fastapi import FastAPI\nfrom starlette.types import ASGIApp"),
        ("app.py", "from ray import serve"),
        ("media/probe.py", "import rays.of.light"),
    ],
)
def test_the_check_allows_what_the_rooms_allow(relative: str, source: str) -> None:
    assert broken(relative, source) == []
