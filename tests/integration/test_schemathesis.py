"""Schemathesis finds nothing: the OpenAPI document is true, for valid and for hostile requests."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from e3rg.config import load_profile
from e3rg.inprocess import served

_HERE = Path(__file__).parent
_UNIT = _HERE.parent / "unit"


# The seed is fixed: an unlucky example of tomorrow is for a longer run by hand, such as
# SCHEMATHESIS_EXAMPLES=200 SCHEMATHESIS_SEED=$RANDOM.
@pytest.mark.timeout(900)
async def test_the_document_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    monkeypatch.syspath_prepend(str(_UNIT))
    from scripted import Script

    async with served(load_profile("local"), Script().stages()) as address:
        # The report folder and the example database belong to the run.
        process = await asyncio.create_subprocess_exec(
            shutil.which("schemathesis", path=str(Path(sys.executable).parent)) or "schemathesis",
            "--config-file",
            str(_HERE / "schemathesis.toml"),
            "run",
            f"{address}/openapi.json",
            "--checks=all",
            "--no-color",
            f"--max-examples={os.environ.get('SCHEMATHESIS_EXAMPLES', '6')}",
            f"--seed={os.environ.get('SCHEMATHESIS_SEED', '1')}",
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{_HERE}:{_UNIT}"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()[-20_000:]
