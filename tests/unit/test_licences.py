"""scripts/check_licences.py tells the GPL from its lesser relatives, by packages installed here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "check_licences.py"


def check(lock: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, lock], capture_output=True, text=True, check=False
    )


def test_the_lock_brings_only_what_notice_names() -> None:
    done = check(ROOT / "requirements" / "local.lock")
    assert done.returncode == 0, done.stderr


def test_a_package_under_the_gpl_is_refused(tmp_path: Path) -> None:
    for licence, code in (("GPL-3.0-only", 1), ("LGPL-2.1-or-later", 0), ("MIT", 0)):
        folder = tmp_path / licence / "new_part-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.4\nName: new-part\nVersion: 1.0\nLicense-Expression: {licence}\n"
        )
        (tmp_path / "x.lock").write_text("new-part==1.0 \\\n    --hash=sha256:0\n")
        done = subprocess.run(
            [sys.executable, SCRIPT, tmp_path / "x.lock"],
            env={"PYTHONPATH": str(tmp_path / licence)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, (licence, done.stderr)
        assert ("new-part" in done.stderr) == (code == 1)
