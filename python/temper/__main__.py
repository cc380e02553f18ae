# SPDX-License-Identifier: Apache-2.0
"""python -m temper VERB ...: what `temper export`, `temper verify --source` and `temper versus` hand over to; and `temper generate` asks for tokens."""
import sys

if sys.argv[1:2] == ["versus"]:
    from temper.versus import contest
    sys.exit(contest.main(sys.argv[2:]))

if sys.argv[1:2] == ["tokenize"] and len(sys.argv) >= 3:
    from temper import _tokens
    sys.exit(_tokens.serve(sys.argv[2]))

from temper.export import cli

sys.exit(cli.main(sys.argv[1:]))
