#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The notebook runs from its first cell to its last, whose assertions hold. usage: test.sh TEMPER (PYTHON is not used: the
# notebook's packages are in the private environment of ./dev)
set -euo pipefail
build=$(dirname "$1")
cd "$(dirname "$0")/../.."
PYTHONPATH="$build/python" "${XDG_CACHE_HOME:-$HOME/.cache}/temper/venv/bin/python" examples/notebook/execute.py examples/notebook/digits.ipynb
