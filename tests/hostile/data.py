# SPDX-License-Identifier: Apache-2.0
"""Data of some megabytes that unpack to gigabytes, and rows without end: refused before the memory is taken."""
import io
import zipfile
import zlib

from harness import LONG, Cases
from wire import model, node, value


def npy(bytes_of_data, shape, dtype="<f4"):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes_of_data


def zeros_npz(path, size):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive, archive.open("x.npy", "w", force_zip64=True) as file:
        file.write(npy(b"", (size // 32, 8)))
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))


def main():
    cases = Cases()
    cases.write("m.onnx", model([node("Relu", ["x"], ["y"])], [value("x", ["n", 8])], [value("y", ["n", 8])]))
    run = ["run", "m.onnx", "--no-timing-cache", "--quick", "--input"]
    zeros_npz(cases.folder / "bomb.npz", (4 if LONG else 1) << 30)
    bomb = cases.documented(cases.run(*run, "bomb.npz"), [3])
    cases.expect(b"--memory-limit" in bomb.err and bomb.memory < 1 << 28, bomb, "the archive is refused by its size, and the option is named")
    zeros_npz(cases.folder / "good.npz", 8 << 20)
    cases.documented(cases.run(*run, "good.npz"), [0])
    cases.documented(cases.run(*run, "good.npz", "--memory-limit", "1MiB"), [3])
    cases.write("wide.csv", b"1," * (100_000_000 if LONG else 10_000_000) + b"1\n")
    wide = cases.documented(cases.run(*run, "wide.csv"), [3])
    cases.expect(wide.memory < 1 << 28, wide, "a row is refused while it is read")
    cases.write("quotes.csv", b'"",' * 3_000_000 + b"1\n")
    cases.documented(cases.run(*run, "quotes.csv"), [3])
    cases.write("long.csv", (b",".join([b"0.25"] * 8) + b"\n") * 200_000)
    cases.documented(cases.run(*run, "long.csv"), [0])
    cases.write("claims.npy", npy(b"", (1 << 40, 8)))
    cases.documented(cases.run(*run, "claims.npy"), [3, 5])
    cases.finish()


main()
