# SPDX-License-Identifier: Apache-2.0
"""The files of a checkout: git's, and new ones that git does not ignore; of a copy without git all that lie there but for
build/."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def git_files(folders=(".",), endings=""):
    """Paths below ROOT, sorted, of the files in `folders` that end with one of `endings`; without either, of all files."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *folders], cwd=ROOT, capture_output=True, text=True)
    names = listed.stdout.split("\0") if listed.returncode == 0 else [
        str(p.relative_to(ROOT)) for folder in folders for p in (ROOT / folder).rglob("*") if not p.is_relative_to(ROOT / "build")]
    return sorted(name for name in names if name.endswith(endings) and (ROOT / name).is_file())
