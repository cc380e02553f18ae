#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: installed.sh CMAKE BUILD_DIR SOURCE_DIR: the examples, as a project of their own, find and link an installed Temper.
set -euo pipefail
cmake=$1 build=$2 source=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
quietly() { "$@" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }; }
quietly "$cmake" --install "$build" --prefix "$folder/an installation"
mv "$folder/an installation" "$folder/moved here"  # nothing in it may remember where it was
cp -r "$source/examples" "$folder/examples"
quietly "$cmake" -S "$folder/examples" -B "$folder/build" -G Ninja -DCMAKE_PREFIX_PATH="$folder/moved here"
quietly "$cmake" --build "$folder/build" -j 2
bash "$source/tests/api/examples.sh" "$folder/build/classify" "$folder/build/run" "$source"
version=$("$folder/moved here/bin/temper" --version)
[[ $version == *temper* ]] || { echo "the installed program said: $version" >&2; exit 1; }
