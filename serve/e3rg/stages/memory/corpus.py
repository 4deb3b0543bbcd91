"""The exemplars that this project wrote: one TOML file for each of the 32 labels."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable
from pathlib import Path

from e3rg.config import ConfigError
from e3rg.stages.memory.engine import Exemplar

FOLDER = Path(__file__).with_name("exemplars")


def load_exemplars(folder: Path = FOLDER) -> tuple[Exemplar, ...]:
    """Read ``<label>.toml`` files, in the order of their names.

    Each holds ``[[exemplar]]`` tables with ``situation`` and ``reply``; the id is the label and
    the place in the file, e.g. ``sad-03``.

    Raises:
        ConfigError: for a folder without such files, or a file that is not of this form.
    """
    exemplars = []
    for path in sorted(folder.glob("*.toml")):
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))["exemplar"]
            for number, table in enumerate(tables, 1):
                name = f"{path.stem}-{number:02d}"
                exemplars.append(Exemplar(name, path.stem, table["situation"], table["reply"]))
        except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path}: needs [[exemplar]] tables with situation and reply: {error!r}"
            ) from error
    if not exemplars:
        raise ConfigError(f"{folder}: no exemplars there")
    return tuple(exemplars)


def fingerprint(exemplars: Iterable[Exemplar], embedder: str) -> str:
    """Hash of all that decides the vectors: the situations, their ids, and the embedder.

    A reply may change without it: replies are read from the files, never from the database.
    """
    digest = hashlib.sha256(embedder.encode())
    for exemplar in exemplars:
        digest.update(f"\x1e{exemplar.id}\x1f{exemplar.situation}".encode())
    return digest.hexdigest()[:16]
