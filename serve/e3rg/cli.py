"""Runs and uses E3RG Serve, the empathetic listener."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from e3rg.cli_identities import identities_app
from e3rg.cli_models import models_app
from e3rg.config import ConfigError, load_profile
from e3rg.doctor import doctor_command
from e3rg.errors import E3RGError
from e3rg.listen import is_wildcard

app = typer.Typer(no_args_is_help=True, help=__doc__, pretty_exceptions_enable=False)
app.add_typer(models_app, name="models")
app.add_typer(identities_app, name="identities")
app.command("doctor")(doctor_command)

console = Console()
errors = Console(stderr=True)

ProfileOption = Annotated[str, typer.Option(help="a shipped profile, or a YAML file")]


@app.command()
def up(
    profile: ProfileOption = "local",
    port: Annotated[int | None, typer.Option(help="port to listen on; 0 takes a free one")] = None,
    host: Annotated[str | None, typer.Option(help="address to listen on")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="show the stages' logs")] = False,
) -> None:
    """Start the whole graph and serve until Ctrl-C."""
    # Ray is heavy; other commands do without it.
    from e3rg.up import running, wait_for_signal

    given = {"host": host, "port": port}
    settings = load_profile(
        profile, {"gateway": {key: value for key, value in given.items() if value is not None}}
    )
    console.print(f"Starting the [bold]{settings.name}[/] profile …")

    def report(name: str, status: str) -> None:
        state, colon, why = status.partition(":")
        line = f"  {name:<14} {state.lower()}{colon}{why}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    with running(settings, report, verbose=verbose) as address:
        # Not wrapped: what is shown is to be copied.
        console.print(_welcome(settings.gateway.host, address), soft_wrap=True)
        wait_for_signal(address)
        console.print("Stopping …")
    console.print("Stopped.")


@app.command()
def talk(
    text: Annotated[str | None, typer.Argument(help="what you say")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="write the reply as .mp4 or .wav")
    ] = None,
    audio: Annotated[Path | None, typer.Option(help="say it with this sound file")] = None,
    video: Annotated[Path | None, typer.Option(help="say it with this video file")] = None,
    portrait: Annotated[Path | None, typer.Option(help="face of the listener")] = None,
    identity: Annotated[str | None, typer.Option(help="who listens")] = None,
    user: Annotated[str | None, typer.Option(help="who you are; enables your memory")] = None,
    conversation: Annotated[str | None, typer.Option(help="go on with a conversation")] = None,
    seed: Annotated[int | None, typer.Option(help="makes the reply repeatable")] = None,
    server: Annotated[str | None, typer.Option(help="address of a running server")] = None,
    profile: ProfileOption = "local",
) -> None:
    """Say something and get a reply that you can watch."""
    from e3rg import talk as talking

    if text is None and audio is None and video is None:
        raise typer.BadParameter("say something: give a text, --audio or --video")
    suffix = output.suffix if output else ""
    if output and suffix not in {".mp4", ".wav"}:
        raise typer.BadParameter(f"{output}: the reply is written as .mp4 or .wav")
    if output:
        _check_output(output)
    settings = load_profile(profile)
    values = {
        "text": text,
        "identity": identity,
        "user": user,
        "conversation": conversation,
        "seed": None if seed is None else str(seed),
        "reply_with": {".mp4": "video", ".wav": "audio", "": "text"}[suffix],
    }
    fields = {key: value for key, value in values.items() if value is not None}
    given = {"audio": audio, "video": video, "portrait": portrait}
    files = {name: path for name, path in given.items() if path is not None}
    for name, path in files.items():
        if not path.is_file() or not os.access(path, os.R_OK):
            raise ConfigError(f"--{name} {path}: there is no such file, or it cannot be read")

    async def run() -> None:
        async with talking.connect(server, settings, console) as address:
            reply = await talking.talk(address, fields, files, console)
            if output is not None:
                await talking.save(address, reply, output)
                console.print(f"[green]wrote[/] {escape(str(output))}", soft_wrap=True)

            console.print(f"[dim]go on with[/] --conversation {reply.conversation}", soft_wrap=True)

    asyncio.run(run())


def _check_output(output: Path) -> None:
    """Before the turn, which would be lost with it."""
    folder = output.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(f"--output {output}: {folder} is not a folder that can be written to")
    if output.is_dir():
        raise ConfigError(f"--output {output}: there is a folder of that name")


def _welcome(host: str, address: str) -> str:
    everywhere = f" ({host}: and at every address of this machine)" if is_wildcard(host) else ""
    return f"""
[green]Ready.[/] Talk to the listener at [bold]{address}/[/]{everywhere}

or from another terminal:

  curl -s {address}/v1/turns -H 'Content-Type: application/json' \\
    -d '{{"text": "I lost my dog yesterday.", "stream": false, "format": "mp4"}}' -o reply.mp4

Stop with Ctrl-C."""


def main() -> None:
    """Run the command; failures that a person can mend are one line and exit code 1."""
    try:
        app()
    except (E3RGError, ConfigError) as error:
        code = f" ({error.code})" if isinstance(error, E3RGError) else ""
        errors.print(f"[red]error:[/] {escape(str(error))}{code}", highlight=False, soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
