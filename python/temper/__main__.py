# SPDX-License-Identifier: Apache-2.0
"""python -m temper VERB ...: what `temper export` and `temper verify --source` hand over to."""
import sys

from temper.export import cli

sys.exit(cli.main(sys.argv[1:]))
