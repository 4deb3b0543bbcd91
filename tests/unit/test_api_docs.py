"""docs/api.md: the client that is written there works."""

from __future__ import annotations

import asyncio
import io
import re
from pathlib import Path
from typing import Any

import av
import pytest
from scripted import REPLY, Script

from e3rg.config import load_profile
from e3rg.inprocess import served

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text()


async def test_the_client_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code.count("http://127.0.0.1:8000") == 1
    async with served(load_profile("local"), Script().stages()) as address:
        names: dict[str, Any] = {}
        await asyncio.to_thread(exec, code.replace("http://127.0.0.1:8000", address), names)
        assert names["reply"] == REPLY
        with av.open(io.BytesIO(names["film"])) as film:
            assert sum(1 for _ in film.decode(video=0)) > 25
        names = {}
        wrong = code.replace("http://127.0.0.1:8000", address).replace(
            "I lost my dog yesterday.", ""
        )
        with pytest.raises(SystemExit, match="text is blank"):
            await asyncio.to_thread(exec, wrong, names)
