# SPDX-License-Identifier: Apache-2.0
"""Where the system has room for no thread, or for a few, each verb does its work or ends with exit code 5 and a line. argv[2]: a
library that refuses pthread_create after TEMPER_TEST_THREADS of them."""
import os
import sys

from harness import Cases
from wire import FLOAT, model, node, tensor, value


def main():
    cases = Cases()
    # The loader splits LD_PRELOAD at spaces and colons, and cannot quote them: the library gets a name without any.
    os.symlink(os.path.abspath(sys.argv[2]), cases.folder / "no_threads.so")
    weight = tensor("w", [256, 256], FLOAT, bytes(4 << 16))
    cases.write("m.onnx", model([node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"])], [value("x", ["n", 256])], [value("y", ["n", 256])], [weight]))
    made = cases.run("build", "m.onnx", "-o", "m.plan", "--quick", "--threads", "2", "--shapes", "64x256")
    cases.expect(made.code == 0, made, "there is a plan")
    commands = [["inspect", "m.onnx"], ["inspect", "m.plan"], ["build", "m.onnx", "-o", "b.plan", "--quick", "--no-timing-cache", "--threads", "2", "--shapes", "64x256"],
                ["run", "m.plan"], ["bench", "m.plan", "--iterations", "2", "--warmup", "1"],
                ["bench", "m.plan", "--iterations", "2", "--warmup", "1", "--streams", "3"], ["profile", "m.plan", "--duration", "50ms"]]
    ended = 0
    for threads in range(4):
        for command in commands:
            outcome = cases.run(*command, environment={"LD_PRELOAD": "./no_threads.so", "TEMPER_TEST_THREADS": str(threads)})
            cases.documented(outcome, [0, 5])
            ended += outcome.code == 5
            if command[0] == "inspect":
                cases.expect(outcome.code == 0, outcome, "what needs no thread works without")
    cases.expect(ended > 0, made, "some command met a thread that could not be made")
    cases.finish()


main()
