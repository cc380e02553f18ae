#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: installed.sh CMAKE BUILD_DIR SOURCE_DIR PYTHON [CCACHE]: the examples, as a project of their own, find and
# link an installed Temper, which has its manual and completions with it and may be moved.
set -euo pipefail
cmake=$1 build=$2 source=$3 python=$4
folder=$(mktemp -d)
# The folder has another name each time, which the compiler cache is not to see.
cached=(${5:+env "CCACHE_BASEDIR=$folder" CCACHE_NOHASHDIR=1 "$5"})
launchers=()
if [[ ${#cached[@]} -gt 0 ]]; then
  launcher=$(IFS=';'; echo "${cached[*]}")
  launchers=("-DCMAKE_C_COMPILER_LAUNCHER=$launcher" "-DCMAKE_CXX_COMPILER_LAUNCHER=$launcher")
fi
trap 'rm -rf "$folder"' EXIT
quietly() { "$@" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }; }
quietly "$cmake" --install "$build" --prefix "$folder/an installation"
mv "$folder/an installation" "$folder/moved here"  # nothing in it may remember where it was
cp -r "$source/examples/cpp" "$folder/examples"
quietly "$cmake" -S "$folder/examples" -B "$folder/build" -G Ninja -DCMAKE_PREFIX_PATH="$folder/moved here" "${launchers[@]}"
quietly "$cmake" --build "$folder/build" -j 2
installed="$folder/moved here"
bash "$source/tests/api/examples.sh" "$folder/build" "$installed/bin/temper" "$python" "$source"

# temper export finds its module, which here says what is missing: the interpreter has no PyTorch.
said=$("$installed/bin/temper" export torchvision:resnet18 -o "$folder/r.onnx" --python "$python" 2>&1) && exit 1
[[ $said == *"pip install"*torch* ]] || { echo "temper export of an installation says: $said" >&2; exit 1; }

# An application that knows only find_package(temper), another that knows only pkg-config.
mkdir "$folder/plain"
cat >"$folder/plain/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(plain LANGUAGES CXX)
find_package(temper CONFIG REQUIRED)
add_executable(classify ../examples/classify.cc)
target_link_libraries(classify temper::temper)
CMAKE
quietly "$cmake" -S "$folder/plain" -B "$folder/plain/build" -G Ninja -DCMAKE_PREFIX_PATH="$installed" "${launchers[@]}"
quietly "$cmake" --build "$folder/plain/build"
pc=$(find "$installed" -name temper.pc)
ln -s "$installed" "$folder/no_space"  # pkg-config's answers are split at blanks
pc=$folder/no_space${pc#"$installed"}
flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs temper)
quietly cc -std=c11 "$folder/examples/run.c" $flags -o "$folder/plain/run"
"$folder/plain/build/classify" "$source/models/digits_cnn.onnx" "$folder/examples/seven.txt" "$folder/plain.plan" >/dev/null
scores=$(LD_LIBRARY_PATH=$(dirname "$pc")/.. "$folder/plain/run" "$folder/plain.plan" "$folder/examples/seven.txt")
[[ $scores == "logits 1x10: "* ]] || { echo "run through pkg-config printed: $scores" >&2; exit 1; }
# Only the public API is visible: an application's own protobuf or JSON cannot meet ours.
seen=$(nm -D --defined-only "$(dirname "$pc")/../libtemper.so" | awk '{print $3}' | grep -v '^temper_' || true)
[[ -z $seen ]] || { echo "libtemper shows: $seen" >&2; exit 1; }

seen=$(nm -D --defined-only "$(dirname "$pc")/../libtemper_runtime.so" | awk '{print $3}' | grep -v '^temper_' || true)
[[ -z $seen ]] || { echo "libtemper_runtime shows: $seen" >&2; exit 1; }
if ldd "$(dirname "$pc")/../libtemper_runtime.so" | grep -E 'protobuf'; then echo "libtemper_runtime needs an importer's libraries" >&2; exit 1; fi
cc -std=c11 $(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags temper) "$folder/examples/run.c" -L"$(dirname "$pc")/.." -ltemper_runtime -o "$folder/plain/run_only"
only=$(LD_LIBRARY_PATH=$(dirname "$pc")/.. "$folder/plain/run_only" "$folder/plain.plan" "$folder/examples/seven.txt")
[[ $only == "$scores" ]] || { echo "run with libtemper_runtime alone printed: $only" >&2; exit 1; }

# Programs for TensorRT find its names in the installation, and nowhere unasked.
cp "$source"/tests/nvinfer/cpp/{wrong_use.cc,common.h} "$folder/"
as_tensorrt() { (cd "$folder" && "$installed/bin/temper" as-tensorrt --device cpu -- "$@"); }
as_tensorrt "${cached[@]}" c++ -std=c++14 -c wrong_use.cc -o wrong_use.o
as_tensorrt c++ wrong_use.o -o wrong_use -lnvinfer -lnvonnxparser -lcudart
quietly "$installed/bin/temper" build "$source/models/digits_cnn.onnx" -o "$folder/stale.plan" --no-measure --isa base
said=$("$installed/bin/temper" as-tensorrt --device cpu -- "$folder/wrong_use" "$source/models/digits_cnn.onnx" "$folder/stale.plan" 2>/dev/null)
[[ $said == "every wrong use failed" ]] || { echo "a program for TensorRT said: $said" >&2; exit 1; }
seen=$(nm -D --defined-only "$(dirname "$pc")/../libtemper_nvinfer.so.0" | awk '{print $3}' | grep -v '^temper_nv_' || true)
[[ -z $seen ]] || { echo "libtemper_nvinfer shows: $seen" >&2; exit 1; }

version=$("$installed/bin/temper" --version)
[[ $version == *temper* ]] || { echo "the installed program said: $version" >&2; exit 1; }
for verb in $("$installed/bin/temper" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p'); do
  grep -q '^\.TP' "$installed/share/man/man1/temper-$verb.1" || { echo "no manual of temper $verb" >&2; exit 1; }
done
# Each shell that is here completes verbs, values and files by kind; bash is always here.
cd "$folder"
"$installed/bin/temper" zoo digits_cnn -o m.onnx --quiet
PATH=$installed/bin:$PATH
complete_in() {
  case $1 in
    bash) bash -c 'source "$1"; COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDS=($3); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        [[ $2 == *" " ]] && { COMP_WORDS+=(""); ((++COMP_CWORD)); }; _temper; printf "%s\n" "${COMPREPLY[@]}"' - \
        "$installed/share/bash-completion/completions/temper" "$2" "${2//=/ = }" ;;
    fish) fish -N -c 'source $argv[1]; complete -C $argv[2]' "$installed/share/fish/vendor_completions.d/temper.fish" "$2" | cut -f1 ;;
  esac
}
for shell in bash fish; do
  command -v "$shell" >/dev/null || continue
  while IFS='|' read -r typed wanted; do
    completed=$(complete_in "$shell" "$typed" | sort | tr '\n' ' ')
    [[ $completed == "$wanted " ]] || { echo "$shell completes '$typed' to '$completed'" >&2; exit 1; }
  done <<'EOF'
temper calib|calibrate
temper build --prec|--precision
temper study m.onnx --method per|percentile:99.99
temper zoo resn|resnet18 resnet50
temper build m.o|m.onnx
temper inspect m.onnx --passes o|off on
EOF
done
for shell in bash zsh; do
  script=$installed/share/bash-completion/completions/temper
  [[ $shell == bash ]] || script=$installed/share/zsh/site-functions/_temper
  ! command -v "$shell" >/dev/null || "$shell" -n "$script"
done
