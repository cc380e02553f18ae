# SPDX-License-Identifier: Apache-2.0
"""Manual pages, read from the program's own help.

usage: manual.py TEMPER FOLDER     writes FOLDER/man1/*.1
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
    sections: list  # (title, [Option])
    footer: str


def parse_entry(head, text):
    names, _, value = head.partition(" ")
    return Option(names.split(","), value.strip(), text)


def parse_help(name, text):
    lines = text.splitlines()
    blank = lines.index("")
    summary, usage = lines[0], [re.sub(r"^(Usage:)? *\S+", "temper", line) for line in lines[1:blank]]
    sections, footer, head = [], [], None
    for line in lines[blank:]:
        if footer or line.startswith("Exit codes:"):
            footer.append(line)
        elif re.match(r"\S.*:$", line):
            sections.append((line[:-1], []))
        elif line.startswith("  ") and not line.startswith("   "):
            # CLI11: two spaces, the name, and the text from column 30 on, or on the next line.
            head, split, rest = line[2:30].rstrip(), len(line) > 30 and line[28:30] == "  ", line[30:]
            if not split:
                found = re.match(r"  (\S.*?)(?:\s{2,}(\S.*))?$", line)
                head, rest = found.group(1), found.group(2) or ""
            sections[-1][1].append(parse_entry(head, rest.strip()))
        elif line.strip():
            sections[-1][1][-1].text = f"{sections[-1][1][-1].text} {line.strip()}".strip()
    return Page(name, summary, usage, sections, " ".join(footer))


def help_of(temper, *verb):
    return subprocess.run([temper, *verb, "--help"], capture_output=True, text=True, check=True).stdout


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def man_page(page, version, verbs):
    out = [f'.TH {page.name.upper()} 1 "" "temper {version}" "Temper"', ".SH NAME", f"{roff(page.name)} \\- {roff(page.summary)}",
           ".SH SYNOPSIS", "\n.br\n".join(f".B {roff(line)}" for line in page.usage)]
    for title, options in page.sections:
        out.append(f".SH {roff(title.upper())}")
        for option in options:
            names = ", ".join(f"\\fB{roff(n)}\\fR" for n in option.names)
            value = f" \\fI{roff(option.value)}\\fR" if option.value else ""
            out += [".TP", names + value, roff(option.text) or "\\&"]
    if page.footer.startswith("Exit codes:"):
        out += [".SH EXIT STATUS", roff(page.footer[len("Exit codes:"):].strip())]
    others = ["temper"] if page.name != "temper" else [f"temper-{v}" for v in verbs]
    out += [".SH SEE ALSO", ", ".join(f"\\fB{roff(o)}\\fR(1)" for o in others)]
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    temper, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    version = subprocess.run([temper, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    top = parse_help("temper", help_of(temper))
    verbs = [option.names[0] for title, options in top.sections if title == "Subcommands" for option in options]
    pages = {verb: parse_help(f"temper-{verb}", help_of(temper, verb)) for verb in verbs}
    (folder / "man1").mkdir(parents=True, exist_ok=True)
    for page in [top, *pages.values()]:
        (folder / "man1" / f"{page.name}.1").write_text(man_page(page, version, verbs))


if __name__ == "__main__":
    main()
