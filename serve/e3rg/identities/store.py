"""Identities on disk: the built-in ones, and those that were added.

``<folder>/<id>/`` holds ``identity.toml`` and the portrait; ``<folder>/.portraits/<sha256>`` holds
portraits that were given with a single turn. Every write goes to a name of its own and is renamed,
so several processes may share the folder and a reader never sees half of anything.
"""

from __future__ import annotations

import difflib
import hashlib
import logging
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from filelock import FileLock, Timeout

from e3rg.errors import E3RGError, is_disk_full
from e3rg.identities.record import BadRecordError, check_fields, read_record, write_record
from e3rg.identities.types import Identity, PortraitRef, PortraitReport

BUILTIN = Path(__file__).parent / "builtin"
DEFAULT_IDENTITY = "clara"
MAX_IDENTITIES = 1000
MAX_TURN_PORTRAITS = 256
MAX_TURN_PORTRAIT_BYTES = 512_000_000

_ID = re.compile(r"[a-z0-9-]{1,64}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_LOCK_S = 10.0
_STALE_S = 3600.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Damage:
    """An identity's folder that cannot be used, and why."""

    path: Path
    reason: str


class IdentityStore:
    """Listeners by id and portraits by content.

    Args:
        folder: where added identities are kept; made when first written to.
        max_identities: how many identities may be added.
        max_portraits: how many portraits of single turns are kept, the latest used ones.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_identities: int = MAX_IDENTITIES,
        max_portraits: int = MAX_TURN_PORTRAITS,
    ) -> None:
        self.folder = folder
        self._max_identities = max_identities
        self._portraits = folder / ".portraits"
        self._max_portraits = max_portraits

    def list(self) -> tuple[Identity, ...]:
        """All usable identities: the built-in ones, then the added ones, each by id."""
        return tuple(item for item in self._scan() if isinstance(item, Identity))

    def damaged(self) -> tuple[Damage, ...]:
        """Folders that look like identities but cannot be read; they are left as they are."""
        return tuple(item for item in self._scan() if isinstance(item, Damage))

    def default(self) -> Identity:
        """The listener of a turn that names none."""
        return self.get(DEFAULT_IDENTITY)

    def get(self, identity: str) -> Identity:
        """Look an identity up by id.

        Raises:
            E3RGError: ``unknown_identity`` (404), naming the ids that come close.
        """
        if _ID.match(identity):
            for root in (BUILTIN, self.folder):
                found = _load(root / identity)
                if isinstance(found, Identity):
                    return found
                if isinstance(found, Damage):
                    raise E3RGError(
                        "unknown_identity",
                        f"identity {identity} is damaged: {found.reason}; remove it with "
                        f"`e3rg identities remove {identity}` and add it again",
                        param="identity",
                        status=404,
                    )
        known = [item.id for item in self.list()]
        close = difflib.get_close_matches(identity[:64], known) or known
        raise E3RGError(
            "unknown_identity",
            f"no identity {_shown(identity)}; choose one of {', '.join(close[:12])}",
            param="identity",
            status=404,
        )

    def add(
        self,
        identity: str,
        *,
        name: str,
        gender: str,
        age: str,
        voice: str,
        profile: str,
        portrait: bytes,
        report: PortraitReport,
    ) -> Identity:
        """Store a new identity, whole or not at all.

        Args:
            identity: its id, ``[a-z0-9-]{1,64}``.
            name, gender, age, voice, profile: see Identity.
            portrait: PNG, JPEG or WebP bytes.
            report: what ``preflight.inspect_portrait`` found in them.

        Raises:
            E3RGError: ``identity_invalid`` (422, param: the field), ``identity_exists`` (409),
                ``identities_full`` (409), ``disk_full`` (507), ``store_busy`` (503).
        """
        if not _ID.match(identity):
            raise E3RGError(
                "identity_invalid",
                f"id {_shown(identity)} is not valid: use 1 to 64 of a-z, 0-9 and -",
                param="id",
                status=422,
            )
        ref = PortraitRef(hashlib.sha256(portrait).hexdigest())
        made = Identity(identity, name, gender, age, voice, ref, profile)
        check_fields(made)
        if (BUILTIN / identity).exists():
            raise _exists(identity)
        with _writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            # Counting and adding are one step, or two adds at the limit would both pass.
            with self._lock():
                if (self.folder / identity).exists():
                    raise _exists(identity)
                if len(_folders(self.folder)) >= self._max_identities:
                    raise E3RGError(
                        "identities_full",
                        f"there are {self._max_identities} added identities, as many as may be: "
                        "remove one that is not used",
                        status=409,
                    )
                self._sweep()
                fresh = self.folder / f".new-{uuid.uuid4().hex}"
                try:
                    fresh.mkdir()
                    write_record(fresh, made, portrait, report)
                    fresh.rename(self.folder / identity)
                finally:
                    shutil.rmtree(fresh, ignore_errors=True)
        return made

    def remove(self, identity: str) -> None:
        """Delete an added identity, damaged or not.

        Raises:
            E3RGError: ``unknown_identity`` (404), or ``identity_builtin`` (403).
        """
        if _ID.match(identity) and (BUILTIN / identity).exists():
            raise E3RGError(
                "identity_builtin",
                f"identity {identity} is built in and cannot be removed",
                param="identity",
                status=403,
            )
        if not _ID.match(identity) or not (self.folder / identity).is_dir():
            self.get(identity)
        doomed = self.folder / f".old-{uuid.uuid4().hex}"
        try:
            (self.folder / identity).rename(doomed)
        except FileNotFoundError:
            self.get(identity)
        shutil.rmtree(doomed, ignore_errors=True)

    def portrait(self, ref: PortraitRef) -> bytes:
        """Read a portrait by content.

        Raises:
            E3RGError: ``unknown_portrait`` (404).
        """
        if _SHA256.match(ref.sha256):
            for path in self._places(ref):
                with suppress(OSError):
                    data = path.read_bytes()
                    if hashlib.sha256(data).hexdigest() == ref.sha256:
                        if path.parent == self._portraits:
                            with suppress(OSError):  # dropped meanwhile: the bytes are here
                                os.utime(path)  # the longest unused are dropped first
                        return data
        raise E3RGError(
            "unknown_portrait",
            f"no portrait {_shown(ref.sha256)}; send the portrait again",
            param="portrait",
            status=404,
        )

    def put_portrait(self, data: bytes) -> PortraitRef:
        """Keep a portrait that was given with one turn; the longest unused ones are dropped.

        An identity's portrait lies in the identity's folder and is never dropped.

        Raises:
            E3RGError: ``disk_full`` (507), ``store_busy`` (503).
        """
        ref = PortraitRef(hashlib.sha256(data).hexdigest())
        if any(item.portrait == ref for item in self.list()):
            return ref
        with _writing(self.folder):
            self._portraits.mkdir(parents=True, exist_ok=True)
            with self._lock():
                path = self._portraits / ref.sha256
                fresh = self._portraits / f".new-{uuid.uuid4().hex}"
                try:
                    # Written again even if it is there: that mends a damaged file, too.
                    fresh.write_bytes(data)
                    fresh.replace(path)
                finally:
                    fresh.unlink(missing_ok=True)
                self._drop_oldest(keep=path)
        return ref

    def _places(self, ref: PortraitRef) -> Iterator[Path]:
        yield self._portraits / ref.sha256
        for root in (BUILTIN, self.folder):
            for folder in _folders(root):
                found = _load(folder)
                if isinstance(found, Identity) and found.portrait == ref:
                    yield from sorted(folder.glob("portrait.*"))

    def _scan(self) -> Iterator[Identity | Damage]:
        for root in (BUILTIN, self.folder):
            for folder in _folders(root):
                found = _load(folder)
                if found is not None:
                    yield found

    def _drop_oldest(self, keep: Path) -> None:
        """Hold the bounds on number and bytes; the caller holds the lock."""
        kept = [(path.stat(), path) for path in self._portraits.iterdir() if path != keep]
        kept.sort(key=lambda pair: pair[0].st_mtime_ns)
        count, size = len(kept) + 1, sum(stat.st_size for stat, _ in kept) + keep.stat().st_size
        for stat, path in kept:
            if count <= self._max_portraits and size <= MAX_TURN_PORTRAIT_BYTES:
                return
            path.unlink(missing_ok=True)
            count, size = count - 1, size - stat.st_size

    @contextmanager
    def _lock(self) -> Iterator[None]:
        try:
            with FileLock(self.folder / ".lock", timeout=_LOCK_S):
                yield
        except Timeout as error:
            raise E3RGError(
                "store_busy",
                f"others have been writing identities here for over {_LOCK_S:.0f} s; try again",
                status=503,
                retry_after=1.0,
            ) from error

    def _sweep(self) -> None:
        """Delete what a killed process left behind."""
        for pattern in (".new-*", ".old-*"):
            for path in self.folder.glob(pattern):
                with suppress(OSError):
                    if time.time() - path.stat().st_mtime > _STALE_S:
                        shutil.rmtree(path, ignore_errors=True)


def _folders(root: Path) -> list[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    except OSError:
        return []
    return [root / name for name in names if _ID.match(name)]


def _load(folder: Path) -> Identity | Damage | None:
    """An identity, what is wrong with it, or None if there is no such folder."""
    if not folder.is_dir():
        return None
    try:
        changed = tuple(
            (path.name, path.stat().st_mtime_ns, path.stat().st_size)
            for path in sorted(folder.iterdir())
        )
        return _read(folder, changed)
    except (BadRecordError, OSError) as error:
        if not folder.is_dir():
            return None
        _warn_once(folder, str(error))
        return Damage(folder, str(error))


@lru_cache(maxsize=512)
def _read(folder: Path, changed: tuple[tuple[str, int, int], ...]) -> Identity:
    return read_record(folder, builtin=folder.parent == BUILTIN)


@lru_cache(maxsize=512)
def _warn_once(folder: Path, reason: str) -> None:
    _log.warning("identity %s is damaged: %s", folder, reason)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise E3RGError(
            "disk_full",
            "the server's disk has no room for a portrait: free some space, or set E3RG_DATA to a "
            "folder on a larger disk",
            status=507,
        ) from error


def _exists(identity: str) -> E3RGError:
    return E3RGError(
        "identity_exists",
        f"there is an identity {identity} already: choose another id or remove that one first",
        param="id",
        status=409,
    )


def _shown(text: str) -> str:
    """Text of a caller as it may stand in a message: short and without control characters."""
    return ascii(text if len(text) <= 64 else f"{text[:61]}...")
