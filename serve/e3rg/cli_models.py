"""``e3rg models``: get, list and check model files."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from e3rg.config import ConfigError, model_dir
from e3rg.errors import E3RGError
from e3rg.models.progress import Bars, Lines
from e3rg.models.store import ModelStore

models_app = typer.Typer(no_args_is_help=True, help="Get, list and check model files.")

ProfileOption = Annotated[str, typer.Option("--profile", "-p", help="whose files")]


@models_app.command()
def pull(profile: ProfileOption = "local") -> None:
    """Download what is missing; each file must match the sha256 of the manifest."""
    console = Console()
    try:
        store = ModelStore(model_dir())
        if console.is_terminal:
            with Bars(console) as bars:
                count = store.pull(profile, bars)
        else:
            count = store.pull(profile, Lines(console))
    except (E3RGError, ConfigError) as error:
        raise _failed(error) from error
    total = len(store.list(profile))
    console.print(
        f"{total} model files of profile {profile} in {store.root}, {count} fetched",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


@models_app.command("list")
def list_(
    profile: Annotated[str | None, typer.Option("--profile", "-p", help="whose files")] = None,
) -> None:
    """Show every file, its licence and whether it is here."""
    table = Table("file", "MB", "licence", "profiles", "state")
    try:
        for status in ModelStore(model_dir()).list(profile):
            file = status.file
            profiles = ", ".join(file.profiles)
            table.add_row(file.name, f"{file.size / 1e6:.1f}", file.license, profiles, status.state)
    except (E3RGError, ConfigError) as error:
        raise _failed(error) from error
    Console().print(table)


@models_app.command()
def verify(profile: ProfileOption = "local") -> None:
    """Read every byte and compare with the manifest; exit code 1 if a file is not whole."""
    console = Console()
    bad = 0
    try:
        for status in ModelStore(model_dir()).verify(profile):
            bad += status.state != "ok"
            console.print(f"{status.state:8}{status.file.name}", highlight=False, markup=False)
    except (E3RGError, ConfigError) as error:
        raise _failed(error) from error
    if bad:
        console.print(f"{bad} files are not whole: run `e3rg models pull`")
        raise typer.Exit(1)


def _failed(error: Exception) -> typer.Exit:
    Console(stderr=True).print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
    return typer.Exit(1)
