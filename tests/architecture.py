#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of ARCHITECTURE.md: each source file with the first sentence of its first comment.

usage: architecture.py [--write]     without --write only says what is stale or missing (check_documents.py does, too)

A table stands between `<!-- files of FOLDER -->` and `<!-- end of FOLDER -->`. It holds the files of FOLDER and of the
folders below that have no table of their own. Files that differ in their ending alone (softmax.h, softmax.cc) share a
row; the first of them that begins with a comment describes all.
"""
import ast
import pathlib
import re
import sys

from git_files import ROOT, git_files

PAGE = ROOT / "ARCHITECTURE.md"
FOLDERS = ("src", "include", "python/native", "python/temper")
ENDINGS = (".h", ".cuh", ".cc", ".cu", ".py")  # the earlier one describes the row
LONGEST = 260
MARKED = re.compile(r"<!-- files of (\S+) -->\n(.*?)<!-- end of \1 -->", re.S)


def source_files():
    return sorted(pathlib.PurePosixPath(name) for name in git_files(FOLDERS, ENDINGS))


def first_comment(path):
    """The paragraph below the license line, or a Python file's docstring; "" where there is none."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
    lines = [line for line in text.splitlines() if "SPDX-License-Identifier" not in line]
    if lines and lines[0].startswith("/*"):
        return re.split(r"\n\s*\*?\s*\n|\*/", "\n".join(lines))[0].removeprefix("/*")
    comment = []
    for line in lines:
        if not line.startswith("//") or not line[2:].strip() or line.startswith("//   "):  # text that is indented is an example
            break
        comment.append(line[2:].strip())
    return " ".join(comment)


def first_sentence(comment):
    comment = " ".join(comment.split())
    return re.split(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!\.\.\.)\s+", comment)[0].rstrip(":.")


def escaped(text):
    """As a cell of a table. In `code` a backslash would be shown, but for that before a |, which ends the cell otherwise."""
    parts = text.split("`")
    for i, part in enumerate(parts):
        is_code = i % 2 == 1 and i + 1 < len(parts)
        parts[i] = part.replace("|", "\\|") if is_code else re.sub(r"([|*_\[\]])", r"\\\1", part).replace("<", "&lt;")
    return "`".join(parts)


def table_of(folder, files):
    rows = {}
    for path in files:
        rows.setdefault(path.with_suffix(""), []).append(path)
    lines, complaints = ["| file | what it is |", "|---|---|"], []
    for stem, paths in sorted(rows.items(), key=lambda row: (len(row[0].parts) > len(folder.parts) + 1, row[0])):
        paths.sort(key=lambda path: ENDINGS.index(path.suffix))
        text = next(filter(None, (first_sentence(first_comment(path)) for path in paths)), "")
        if not text:
            complaints.append(f"{paths[0]}: needs a comment below the license line that says in one sentence what it is")
        elif len(text) > LONGEST:
            complaints.append(f"{paths[0]}: the first sentence has {len(text)} characters; ARCHITECTURE.md takes {LONGEST}")
        names = [f"`{paths[0].relative_to(folder)}`", *(f"`{path.suffix}`" for path in paths[1:])]
        lines.append(f"| {' '.join(names)} | {escaped(text)} |")
    return "\n".join(lines) + "\n", complaints


def tables(page):
    """The page with its tables as they should be, and what is wrong with the sources."""
    marked = [pathlib.PurePosixPath(match[1]) for match in MARKED.finditer(page)]
    files, complaints = {folder: [] for folder in marked}, []
    for path in source_files():
        home = next((parent for parent in path.parents if parent in files), None)
        if home:
            files[home].append(path)
        elif path.parent.name:
            complaints.append(f"ARCHITECTURE.md: no table holds {path}; add `<!-- files of {path.parent} -->`")

    def rewritten(match):
        table, wrong = table_of(pathlib.PurePosixPath(match[1]), files[pathlib.PurePosixPath(match[1])])
        complaints.extend(wrong)
        return f"<!-- files of {match[1]} -->\n{table}<!-- end of {match[1]} -->"

    return MARKED.sub(rewritten, page), complaints


def problems():
    page = PAGE.read_text(encoding="utf-8")
    wanted, complaints = tables(page)
    if wanted != page:
        stale = [new for new in wanted.splitlines() if new.startswith("|") and new not in page.splitlines()]
        complaints.append("ARCHITECTURE.md: the tables are stale; ./dev architecture writes them"
                          + (f" ({len(stale)} rows, first: {stale[0]})" if stale else ""))
    return complaints


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        PAGE.write_text(tables(PAGE.read_text(encoding="utf-8"))[0], encoding="utf-8")
    found = problems()
    print("\n".join(found) or "the tables of ARCHITECTURE.md are up to date")
    sys.exit(1 if found else 0)
