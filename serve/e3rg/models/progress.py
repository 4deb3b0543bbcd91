"""What a pull shows while it works: bars on a terminal, plain lines anywhere else."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class PullProgress(Protocol):
    """Told of each download; all counts are bytes."""

    def begin(self, label: str, total: int | None) -> None:
        """A download starts (or restarts)."""
        ...

    def update(self, label: str, done: int, total: int | None = None) -> None:
        """So many bytes have arrived, of so many when that is known."""
        ...

    def end(self, label: str) -> None:
        """The download is over, well or badly."""
        ...

    def say(self, line: str) -> None:
        """Something that a person should read."""
        ...


class Silent:
    """Shows nothing."""

    def begin(self, label: str, total: int | None) -> None:
        """See PullProgress."""

    def update(self, label: str, done: int, total: int | None = None) -> None:
        """See PullProgress."""

    def end(self, label: str) -> None:
        """See PullProgress."""

    def say(self, line: str) -> None:
        """See PullProgress."""


class Lines(Silent):
    """One line a download and one a file: for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def begin(self, label: str, total: int | None) -> None:
        """See PullProgress."""
        self.say(f"fetching {label}" + (f" ({total / 1e6:.1f} MB)" if total else ""))

    def say(self, line: str) -> None:
        """See PullProgress."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class Bars:
    """One bar a download."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}

    def begin(self, label: str, total: int | None) -> None:
        """See PullProgress."""
        if label in self._tasks:
            self._progress.reset(self._tasks[label], total=total)
        else:
            self._tasks[label] = self._progress.add_task(label, total=total)

    def update(self, label: str, done: int, total: int | None = None) -> None:
        """See PullProgress."""
        if total is None:
            self._progress.update(self._tasks[label], completed=done)
        else:
            self._progress.update(self._tasks[label], completed=done, total=total)

    def end(self, label: str) -> None:
        """See PullProgress."""
        self._progress.stop_task(self._tasks[label])

    def say(self, line: str) -> None:
        """See PullProgress."""
        self._progress.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._progress.stop()
