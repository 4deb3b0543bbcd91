"""One identity as files: ``identity.toml`` and ``portrait.png``, ``.jpg`` or ``.webp``."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from e3rg.errors import E3RGError
from e3rg.identities.types import Identity, PortraitRef, PortraitReport

GENDERS = ("female", "male")
AGES = ("young", "adult", "senior")
MAX_NAME = 80
MAX_PROFILE = 500

DEFAULT_VOICES = {
    ("female", "young"): "af_bella",
    ("female", "adult"): "af_heart",
    ("female", "senior"): "bf_emma",
    ("male", "young"): "am_puck",
    ("male", "adult"): "am_michael",
    ("male", "senior"): "bm_george",
}
"""Voice of an identity that names none, by gender and age (voice ids of Kokoro-82M)."""

_VOICE = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_TEXTS = ("id", "name", "gender", "age", "voice", "profile")


class BadRecordError(ValueError):
    """A folder that does not hold a usable identity."""


def check_fields(identity: Identity) -> None:
    """Check what a caller gave.

    Raises:
        E3RGError: ``identity_invalid`` (422, param: the field).
    """
    faults = {
        "name": _text_fault(identity.name, MAX_NAME),
        "gender": _choice_fault(identity.gender, GENDERS),
        "age": _choice_fault(identity.age, AGES),
        "voice": ""
        if _VOICE.match(identity.voice)
        else "must be a voice id of the speech engine, such as af_heart",
        "profile": _text_fault(identity.profile, MAX_PROFILE),
    }
    for field, fault in faults.items():
        if fault:
            raise E3RGError("identity_invalid", f"{field} {fault}", param=field, status=422)


def check_voice(voice: str, known: Collection[str]) -> None:
    """Check that the speech engine has a voice.

    Args:
        voice: what a caller named.
        known: voice ids of the engine.

    Raises:
        E3RGError: ``identity_invalid`` (422, param ``voice``), naming the ids that come close.
    """
    if voice in known:
        return
    close = difflib.get_close_matches(voice[:64], known) or sorted(known)
    raise E3RGError(
        "identity_invalid",
        f"voice {voice[:64]!a} does not exist: use one of {', '.join(close[:12])}",
        param="voice",
        status=422,
    )


def write_record(folder: Path, identity: Identity, portrait: bytes, report: PortraitReport) -> None:
    """Write an identity into an empty folder, down to the disk."""
    lines = [f"{key} = {_toml(getattr(identity, key))}" for key in _TEXTS]
    lines += [
        "",
        "[portrait]",
        f"sha256 = {_toml(identity.portrait.sha256)}",
        f"width = {report.width}",
        f"height = {report.height}",
        f"face = [{', '.join(f'{v:.4f}' for v in report.face)}]",
        f"yaw = {report.yaw:.2f}",
        f"pitch = {report.pitch:.2f}",
        f"roll = {report.roll:.2f}",
        f"sharpness = {report.sharpness:.2f}",
        "",
    ]
    _write(folder / f"portrait.{_extension(portrait)}", portrait)
    _write(folder / "identity.toml", "\n".join(lines).encode())


def read_record(folder: Path, *, builtin: bool) -> Identity:
    """Read an identity's folder.

    Raises:
        BadRecordError: with what is missing or wrong.
        OSError: if a file cannot be read.
    """
    try:
        values: dict[str, Any] = tomllib.loads((folder / "identity.toml").read_text("utf-8"))
    except FileNotFoundError as error:
        raise BadRecordError("identity.toml is missing") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadRecordError(f"identity.toml is not valid: {error}") from error
    for key in _TEXTS:
        if not isinstance(values.get(key), str):
            raise BadRecordError(f"identity.toml: {key} must be a text")
    if values["id"] != folder.name:
        raise BadRecordError(f"identity.toml: id is {values['id']!r}, not the folder's name")
    pictures = sorted(folder.glob("portrait.*"))
    if len(pictures) != 1:
        raise BadRecordError(f"there are {len(pictures)} portrait files; there must be one")
    sha256 = hashlib.sha256(pictures[0].read_bytes()).hexdigest()
    written = values.get("portrait", {})
    if isinstance(written, dict) and written.get("sha256", sha256) != sha256:
        raise BadRecordError(f"{pictures[0].name} has changed: its sha256 is not the stored one")
    identity = Identity(
        **{key: values[key] for key in _TEXTS}, portrait=PortraitRef(sha256), builtin=builtin
    )
    try:
        check_fields(identity)
    except E3RGError as error:
        raise BadRecordError(f"identity.toml: {error.message}") from error
    return identity


def _text_fault(text: str, longest: int) -> str:
    if not text.strip():
        return "must not be empty"
    if len(text) > longest:
        return f"has {len(text)} characters; use at most {longest}"
    if not text.isprintable():
        return "must be one line without control characters"
    return ""


def _choice_fault(value: str, choices: tuple[str, ...]) -> str:
    return "" if value in choices else f"must be one of {', '.join(choices)}"


def _toml(text: str) -> str:
    # A JSON string is a TOML basic string, but for DEL, which `isprintable` keeps out.
    return json.dumps(text, ensure_ascii=False)


def _extension(portrait: bytes) -> str:
    if portrait.startswith(b"\x89PNG"):
        return "png"
    return "webp" if portrait[8:12] == b"WEBP" else "jpg"


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
