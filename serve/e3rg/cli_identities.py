"""``e3rg identities``: who can listen, and new listeners from a portrait. Needs no server."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from e3rg.config import data_dir, model_dir
from e3rg.errors import E3RGError
from e3rg.identities.preflight import MIN_FACE, MIN_SHARPNESS, inspect_portrait
from e3rg.identities.record import DEFAULT_VOICES, check_voice
from e3rg.identities.store import DEFAULT_IDENTITY, IdentityStore
from e3rg.identities.types import MAX_PORTRAIT_BYTES, PortraitReport
from e3rg.models.store import ModelStore
from e3rg.stages.speech.voices import VOICES
from e3rg.vision.face import FaceFinder

identities_app = typer.Typer(
    name="identities", help="Listeners: list, show, add, remove.", no_args_is_help=True
)


@identities_app.command("list")
def list_identities() -> None:
    """List the listeners of this machine."""
    store = _store()
    table = Table(box=None, pad_edge=False)
    for heading in ("id", "name", "gender", "age", "voice", "kind"):
        table.add_column(heading)
    for item in store.list():
        kind = "built in" if item.builtin else "added"
        kind += ", default" if item.id == DEFAULT_IDENTITY else ""
        table.add_row(*map(escape, (item.id, item.name, item.gender, item.age, item.voice, kind)))
    Console().print(table)
    for damage in store.damaged():
        typer.echo(f"damaged: {damage.path}: {damage.reason}", err=True)


@identities_app.command()
def show(identity: Annotated[str, typer.Argument(help="id of a listener")]) -> None:
    """Show one listener."""
    with _reported():
        item = _store().get(identity)
    for field in ("id", "name", "gender", "age", "voice", "profile"):
        typer.echo(f"{field:9} {getattr(item, field)}")
    typer.echo(f"{'portrait':9} sha256 {item.portrait.sha256}")


@identities_app.command()
def add(
    name: Annotated[str, typer.Argument(help="what the listener is called")],
    portrait: Annotated[Path, typer.Option(help="PNG, JPEG or WebP file that shows one face")],
    gender: Annotated[str, typer.Option(help="female or male")] = "female",
    age: Annotated[str, typer.Option(help="young, adult or senior")] = "adult",
    voice: Annotated[str, typer.Option(help="voice id; by gender and age if not given")] = "",
    profile: Annotated[str, typer.Option(help="one or two sentences of character")] = "",
    identity: Annotated[str, typer.Option("--id", help="made from the name if not given")] = "",
) -> None:
    """Add a listener, after a check of the portrait."""
    voice = voice or DEFAULT_VOICES.get((gender, age), "af_heart")
    with _reported():
        check_voice(voice, [known.id for known in VOICES])
        data = _read(portrait)
        report = inspect_portrait(data, FaceFinder.load(ModelStore(model_dir())))
        _print_report(report)
        made = _store().add(
            identity or slug(name),
            name=name,
            gender=gender,
            age=age,
            voice=voice,
            profile=profile or f"{name} listens closely and answers warmly and plainly.",
            portrait=data,
            report=report,
        )
    typer.echo(f'added {made.id}: try `e3rg talk --identity {made.id} "Good morning"`')


@identities_app.command()
def remove(identity: Annotated[str, typer.Argument(help="id of an added listener")]) -> None:
    """Remove a listener that was added."""
    with _reported():
        _store().remove(identity)
    typer.echo(f"removed {identity}")


def slug(name: str) -> str:
    """An id from a name: ``Zoë O'Neil`` → ``zoe-o-neil``."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:64]


def _store() -> IdentityStore:
    return IdentityStore(data_dir() / "identities")


def _read(portrait: Path) -> bytes:
    try:
        with portrait.open("rb") as file:
            # One byte over the limit is enough for preflight to refuse it.
            return file.read(MAX_PORTRAIT_BYTES + 1)
    except OSError as error:
        raise E3RGError(
            "portrait_unreadable",
            f"cannot read {portrait}: {error.strerror}; give the path of a PNG, JPEG or WebP file",
            param="portrait",
        ) from error


def _print_report(report: PortraitReport) -> None:
    left, top, right, bottom = report.face
    wide, high = (right - left) * report.width, (bottom - top) * report.height
    rows = (
        ("picture", f"{report.width}×{report.height} px"),
        ("face", f"{wide:.0f}×{high:.0f} px (at least {MIN_FACE} wide)"),
        ("pose", f"yaw {report.yaw:+.0f}°, pitch {report.pitch:+.0f}°, roll {report.roll:+.0f}°"),
        ("sharpness", f"{report.sharpness:.0f} (at least {MIN_SHARPNESS:.0f})"),
    )
    for label, text in rows:
        typer.echo(f"ok {label:9} {text}")


@contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except E3RGError as error:
        typer.echo(f"error: {error.message} [{error.code}]", err=True)
        raise typer.Exit(1) from error
