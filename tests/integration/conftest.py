"""A real server for the whole run, and a look into its replicas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import shared_data
from _system import STAGES, Replicas, Server, launched

__all__ = ["STAGES", "Replicas", "Server"]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with launched(tmp_path_factory.mktemp("system")) as server:
        yield server


@pytest.fixture(scope="session")
def shared() -> Path:
    """Measuring data that is not part of the project (see docs/testing.md)."""
    return shared_data.shared("speech_jfk.flac").parent


@pytest.fixture(scope="session")
def replicas(server: Server) -> Iterator[Replicas]:
    replicas = Replicas()
    yield replicas
    replicas.close()
