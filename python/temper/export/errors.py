# SPDX-License-Identifier: Apache-2.0
"""Errors of the exporters: one line each, with the exit codes of the temper program."""
import json
import os
import shlex
import sys
import sysconfig

CHECK_FAILED, USAGE, BAD_FILE, NOT_SUPPORTED, MACHINE = 1, 2, 3, 4, 5


class ExportError(Exception):
    """Ends an export. `code` is the exit code; the message is one line that says what to do next."""

    def __init__(self, code, message):
        super().__init__(" ".join(str(message).split()))
        self.code = code


def first_line(error):
    """An exception of somebody else's code as one line: its type and the first line that says something."""
    for line in str(error).splitlines():
        if line.strip():
            return f"{type(error).__name__}: {line.strip()[:300]}"
    return type(error).__name__


def read_object(path, before="", lacks="no object of JSON"):
    """The object of JSON in a file, as a dict; refused, with `before` in front, where it holds none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ExportError(BAD_FILE, f"{before}{path}: {first_line(error)}") from error
    if not isinstance(found, dict):
        raise ExportError(BAD_FILE, f"{before}{path} holds {lacks}")
    return found


def pip_line(packages):
    """The command that installs `packages` for this interpreter; into a new environment where Debian guards its own."""
    python, names = shlex.quote(sys.executable), " ".join(packages)
    guarded = os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED"))
    if guarded and sys.prefix == sys.base_prefix:
        return f"{python} -m venv temper-env && temper-env/bin/python -m pip install {names} (then --python temper-env/bin/python)"
    return f"{python} -m pip install {names}"


def need(packages, *modules):
    """Imports `modules` and returns them (one alone as itself). Throws ExportError with the pip line where one is not installed."""
    import importlib

    found = []
    for module in modules:
        try:
            found.append(importlib.import_module(module))
        except ModuleNotFoundError as error:
            if error.name and error.name.split(".")[0] != module.split(".")[0]:
                raise ExportError(MACHINE, f"{module} is installed but cannot be imported, as it misses {error.name}; install it with: "
                                           f"{pip_line([error.name.split('.')[0]])}") from error
            raise ExportError(NOT_SUPPORTED, f"this needs {module}, which is not installed for {sys.executable}; install it with: {pip_line(packages)}") from error
        except (ImportError, OSError) as error:
            raise ExportError(MACHINE, f"{module} is installed but cannot be imported: {first_line(error)}") from error
    return found[0] if len(found) == 1 else found
