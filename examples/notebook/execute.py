# SPDX-License-Identifier: Apache-2.0
"""Runs a notebook from its first cell to its last.

usage: execute.py NOTEBOOK [OUTPUT]     OUTPUT: where to write it with what it printed and drew
"""
import pathlib
import sys

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

if len(sys.argv) not in (2, 3):
    sys.exit(__doc__)
path = pathlib.Path(sys.argv[1])
notebook = nbformat.read(path, as_version=4)
try:
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()
except CellExecutionError as error:
    sys.exit(f"{path}: {error}")
for cell in notebook.cells:
    cell.metadata.pop("execution", None)  # when each cell ran: noise in every change
if len(sys.argv) == 3:
    nbformat.write(notebook, sys.argv[2])
cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
print(f"{path}: {len(cells)} cells ran")
