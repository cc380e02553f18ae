# SPDX-License-Identifier: Apache-2.0
"""ONNX models written byte by byte: what no library would write, and a million nodes in a second."""
import struct

FLOAT, INT64, STRING, BOOL = 1, 7, 8, 9
BYTES = [bytes([n]) for n in range(128)]


def varint(n):
    if 0 <= n < 128:  # nearly all
        return BYTES[n]
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number, content):
    """A text, bytes or message; or, of an int, a number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogateescape")
    return varint(number << 3 | 2) + varint(len(content)) + content


def fields(number, contents):
    """Bytes are fields that are written already."""
    return contents if isinstance(contents, bytes) else b"".join([field(number, c) for c in contents])


def around(number, before, size, after):
    """What stands before and behind `size` bytes in a field that holds `before`, these and `after`."""
    return varint(number << 3 | 2) + varint(len(before) + size + len(after)) + before, after


def attribute(name, value):
    if isinstance(value, int):
        return field(5, field(1, name) + field(3, value) + field(20, 2))
    if isinstance(value, float):
        return field(5, field(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + field(20, 1))
    if isinstance(value, str):
        return field(5, field(1, name) + field(4, value) + field(20, 3))
    if isinstance(value, list):
        return field(5, field(1, name) + fields(8, value) + field(20, 7))
    if isinstance(value, tuple):  # a graph
        return field(5, field(1, name) + field(6, value[0]) + field(20, 5))
    return field(5, field(1, name) + field(5, value) + field(20, 4))


def node(op, inputs, outputs, domain="", name="", **attributes):
    return (fields(1, inputs) + fields(2, outputs) + (field(3, name) if name else b"") + field(4, op)
            + b"".join(attribute(k, v) for k, v in attributes.items()) + (field(7, domain) if domain else b""))


def tensor(name, dims, dtype, raw):
    return fields(1, dims) + field(2, dtype) + (field(8, name) if name else b"") + field(9, raw)


def ints(name, values, scalar=False):
    return tensor(name, [] if scalar else [len(values)], INT64, struct.pack(f"<{len(values)}q", *values))


def value(name, dims, dtype=FLOAT):
    shape = b"".join(field(1, field(1 if isinstance(d, int) else 2, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, shape)))


def graph(nodes, inputs, outputs, constants=()):
    return fields(1, nodes) + field(2, "g") + fields(5, constants) + fields(11, inputs) + fields(12, outputs)


def model(nodes, inputs, outputs, constants=(), functions=(), opset=17, ir=8, producer=""):
    own = field(8, field(1, "own") + field(2, 1)) if functions else b""
    return (field(1, ir) + (field(2, producer) if producer else b"") + field(7, graph(nodes, inputs, outputs, constants))
            + field(8, field(1, "") + field(2, opset)) + own + fields(25, functions))


def function(name, nodes, inputs=("a",), outputs=("b",), opset=17):
    imports = field(9, field(1, "") + field(2, opset)) + field(9, field(1, "own") + field(2, 1))
    return field(1, name) + fields(4, inputs) + fields(5, outputs) + fields(7, nodes) + imports + field(10, "own")
