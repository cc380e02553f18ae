# SPDX-License-Identifier: Apache-2.0
"""Manual pages, read from the program's own help.

usage: manual.py FOLDER [EMULATOR...] TEMPER     writes FOLDER/man1/*.1
"""
import dataclasses
import pathlib
import re
import subprocess
import sys


@dataclasses.dataclass
class Option:
    names: list  # "-o", "--output"; of a positional, its name alone
    value: str   # "TEXT=fp32"; "" for a flag
    text: str


@dataclasses.dataclass
class Page:
    name: str      # "temper" or "temper-build"
    summary: str
    usage: list  # of lines
    example: str
    sections: list  # (title, [Option])
    text: str    # between the options and the exit codes
    codes: list  # ("0", "done")


def parse_entry(head, text):
    names, _, value = head.partition(" ")
    return Option(names.split(","), value.strip(), text)


def parse_help(name, text):
    """What src/cli/help.cc prints: entries begin with two spaces, and their text with column 30, or on the next line."""
    lines = text.splitlines()
    blank = lines.index("")
    page = Page(name, lines[0], [line.removeprefix("Usage:").strip() for line in lines[1:blank]], "", [], "", [])
    title = None
    for line in lines[blank:]:
        if line.endswith(":") and not line.startswith(" "):
            title = line[:-1]
            if title not in ("Example", "Exit codes"):
                page.sections.append((title, []))
        elif line.startswith("Exit codes: "):
            page.codes.append(("", line.removeprefix("Exit codes: ")))
        elif not line.strip():
            title = title if title == "text" else None
            page.text += "\n" if title else ""
        elif title == "Example":
            page.example = line.strip()
        elif title == "Exit codes":
            page.codes.append(tuple(line.split(maxsplit=1)))
        elif title in (None, "text"):
            title = "text"
            page.text += line + "\n"
        elif line.startswith("   "):
            option = page.sections[-1][1][-1]
            option.text = f"{option.text} {line.strip()}".strip()
        elif line.startswith("  -") or title == "Arguments" or name == "temper":
            in_line = len(line) > 30 and line[28:30] == "  "
            head, rest = (line[2:30].rstrip(), line[30:].strip()) if in_line else (line.strip(), "")
            page.sections[-1][1].append(parse_entry(head, rest))
        else:  # what all options of the group have in common
            page.sections[-1][1].append(Option([], "", line.strip()))
    return page


def help_of(temper, *verb):
    return subprocess.run([*temper, *verb, "--help"], capture_output=True, text=True, check=True).stdout


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def man_page(page, version, verbs):
    out = [f'.TH {page.name.upper()} 1 "" "temper {version}" "Temper"', ".SH NAME", f"{roff(page.name)} \\- {roff(page.summary)}",
           ".SH SYNOPSIS", "\n.br\n".join(f".B {roff(line)}" for line in page.usage)]
    if page.example:
        out += [".SH EXAMPLE", ".nf", roff(page.example), ".fi"]
    for title, options in page.sections:
        out.append(f".SH {roff(title.upper())}")
        for option in options:
            if not option.names:
                out += [".PP", roff(option.text)]
                continue
            names = ", ".join(f"\\fB{roff(n)}\\fR" for n in option.names)
            value = f" \\fI{roff(option.value)}\\fR" if option.value else ""
            out += [".TP", names + value, roff(option.text) or "\\&"]
    if page.text:
        out += [".SH NOTES", ".nf", roff(page.text.strip()), ".fi"]
    if page.codes:
        out.append(".SH EXIT STATUS")
    for code, meaning in page.codes:
        out += [".TP", f".B {code}", roff(meaning)] if code else [roff(meaning)]
    others = ["temper"] if page.name != "temper" else [f"temper-{v}" for v in verbs]
    out += [".SH SEE ALSO", ", ".join(f"\\fB{roff(o)}\\fR(1)" for o in others)]
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder, temper = pathlib.Path(sys.argv[1]), sys.argv[2:]
    version = subprocess.run([*temper, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    top = parse_help("temper", help_of(temper))
    verbs = [option.names[0] for title, options in top.sections if title != "Options" for option in options]
    pages = {verb: parse_help(f"temper-{verb}", help_of(temper, verb)) for verb in verbs}
    (folder / "man1").mkdir(parents=True, exist_ok=True)
    for page in [top, *pages.values()]:
        (folder / "man1" / f"{page.name}.1").write_text(man_page(page, version, verbs))


if __name__ == "__main__":
    main()
