#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: unit.sh UNIT PROGRAM: systemd reads the unit without a complaint, and finds one where a line of it is wrong; the options that it
# gives temper serve are there.
set -euo pipefail
unit=$1 program=$2
command -v systemd-analyze >/dev/null || { echo "systemd-analyze is not installed (Debian's package systemd)"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The program of the build folder in the place of the installed one, which systemd looks for; its manual page is not installed.
verify() { XDG_RUNTIME_DIR=$folder SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no --recursive-errors=no "$folder/temper-serve@models.service" 2>&1; }
sed "s|^ExecStart=temper |ExecStart=\"$program\" |" "$unit" >"$folder/temper-serve@.service"
ln -s "temper-serve@.service" "$folder/temper-serve@models.service"
said=$(verify) || { echo "systemd-analyze: $said" >&2; exit 1; }
[[ -z $said ]] || { echo "systemd-analyze: $said" >&2; exit 1; }
sed -i 's/^ProtectSystem=strict/ProtectSystem=strictly/' "$folder/temper-serve@.service"
said=$(verify) || true
[[ $said == *strictly* ]] || { echo "systemd-analyze does not see a wrong line: $said" >&2; exit 1; }

mkdir "$folder/srv"
line=$(sed -n 's/^ExecStart=temper //p' "$unit" | sed "s|/srv/temper/%i|$folder/srv|; s/ \$OPTIONS//")
command=$("$program" $line --dry-run)
[[ $command == *"--model-repository=$folder/srv "* && $command == *"--http-address=127.0.0.1 "* ]] || { echo "the unit would run: $command" >&2; exit 1; }
