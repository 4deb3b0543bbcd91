import os
import subprocess
import sys
from pathlib import Path

from e3rg.config import model_dir

_EMBED = """
from e3rg.config import model_dir
from e3rg.embedding.minilm import MiniLmEmbedder
from e3rg.models.store import ModelStore
assert MiniLmEmbedder.load(ModelStore(model_dir())).embed(["hello"]).shape[0] == 1
"""


def test_libraries_keep_no_identity_of_this_machine(tmp_path: Path) -> None:
    """ONNX Runtime, for one, makes a device id for its reports unless it is told not to."""
    environment = {**os.environ, "HOME": str(tmp_path), "E3RG_MODELS": str(model_dir())}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    environment.pop("XDG_CACHE_HOME", None)
    subprocess.run([sys.executable, "-c", _EMBED], env=environment, check=True, timeout=120)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
