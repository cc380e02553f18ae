# SPDX-License-Identifier: Apache-2.0
"""Threads, forks, and interpreters that end while Temper runs."""
import os
import select
import threading
import unittest

import numpy
from common import DIGITS, Case, images, python

import temper

EXIT = """
import sys, threading, time
import numpy, temper
engine = temper.build(sys.argv[1], threads=2, measure=False)
x = numpy.zeros((1, 1, 8, 8), numpy.float32)
def run():
    while True:
        engine.run(x)
def bench():
    while True:
        temper.bench(engine, duration=30)
def build():
    while True:
        temper.build(sys.argv[1], timing_cache=None)
def compare():
    while True:
        temper.compare(engine, lambda: engine.run(x), duration=30)
def calibrate():
    rng = numpy.random.default_rng(0)
    while True:
        temper.calibrate(sys.argv[1], (rng.uniform(0, 1, (50, 1, 8, 8)).astype("float32") for _ in range(4)), method="auto", threads=1)
work = {"run": run, "bench": bench, "build": build, "compare": compare, "calibrate": calibrate}[sys.argv[2]]
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
"""

LATE = """
import atexit, sys
def late():
    try:
        engine.run(x)
    except temper.Error as error:
        print(error.kind, error)
atexit.register(late)  # before temper's own, so it runs after that
import numpy, temper
engine = temper.build(sys.argv[1], measure=False)
x = numpy.zeros((1, 1, 8, 8), numpy.float32)
"""


def in_child(call):
    """What `call` returns, as text, in a forked child; None where it hangs."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(call())
        except BaseException as error:  # the child must not return into the test runner
            text = f"{type(error).__name__} {getattr(error, 'kind', '')} {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], 20)
    text = os.read(reader, 1 << 16).decode() if ready else None
    if not ready:
        os.kill(child, 9)
    os.close(reader)
    os.waitpid(child, 0)
    return text


class ThreadsTest(Case):
    def test_eight_threads_on_one_engine_get_identical_answers(self):
        engine = temper.build(DIGITS, shapes=[(1, 1, 8, 8), (8, 1, 8, 8), (8, 1, 8, 8)], threads=1, measure=False)
        batches = [images(1 + i % 8, seed=i) for i in range(24)]
        expected = [engine.run(x)["logits"] for x in batches]
        wrong = []

        def work(start):
            for i in range(200):
                k = (start + i) % len(batches)
                if not numpy.array_equal(engine.run(batches[k])["logits"], expected[k]):
                    wrong.append(k)

        threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_an_engine_of_one_thread_starts_no_other(self):
        engine = temper.build(DIGITS, shapes=(8, 1, 8, 8), threads=1, measure=False)
        x, started = images(8), []

        def work():
            before = set(os.listdir("/proc/self/task"))
            engine.run(x)
            started.extend(set(os.listdir("/proc/self/task")) - before)  # not a count: one joined before may still be listed

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(started, [])

    def test_one_session_in_two_threads_is_refused(self):
        engine = temper.build(DIGITS, shapes=(512, 1, 8, 8), threads=1, measure=False)
        session = engine.session()
        x = images(512)
        self.assertOneThreadAtATime(lambda: session.run(x))
        session.run(x)  # and is good afterwards

    def test_an_engine_may_be_closed_while_threads_run_it(self):
        engine = temper.build(DIGITS, shapes=(64, 1, 8, 8), threads=1, measure=False)
        x = images(64)
        others = []

        def work():
            try:
                while True:
                    engine.run(x)
            except temper.Error as error:
                if "the engine is closed" not in str(error):
                    others.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        engine.close()
        for thread in threads:
            thread.join()
        self.assertEqual(others, [])

    def test_a_process_forked_after_use_is_told_so_and_does_not_hang(self):
        engine = temper.build(DIGITS, threads=2, measure=False)
        x = images(1)
        engine.run(x)
        for call in (lambda: engine.run(x), lambda: temper.build(DIGITS), lambda: temper.bench(engine), lambda: temper.load(b"plan")):
            text = in_child(call)
            self.assertIsNotNone(text, "the child hung")
            self.assertIn("Error usage this process was forked", text)
            self.assertIn("spawn", text)
        engine.run(x)  # the parent goes on

    def test_a_process_forked_before_use_may_run(self):
        out = python("""
import os, sys, numpy, temper
child = os.fork()
engine = temper.build(sys.argv[1], threads=2, measure=False)
engine.run(numpy.zeros((1, 1, 8, 8), numpy.float32))
if child: sys.exit(os.waitpid(child, 0)[1])
""", DIGITS)
        self.assertEqual(out, "")

    def test_the_interpreter_may_end_while_threads_are_inside(self):
        for work in ("run", "run", "run", "bench", "build", "compare", "calibrate"):
            with self.subTest(work=work):
                self.assertEqual(python(EXIT, DIGITS, work), "")

    def test_a_call_while_the_interpreter_ends_is_refused(self):
        self.assertEqual(python(LATE, DIGITS), "usage the interpreter is ending: Temper runs nothing any more\n")

    def test_ctrl_c_ends_a_build(self):
        out = python("""
import os, signal, sys, threading, time, temper
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
try:
    threading.Thread(target=lambda: (time.sleep(0.2), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
    while True: temper.build(sys.argv[1], timing_cache=None)
except KeyboardInterrupt: print("stopped")
""", DIGITS)
        self.assertEqual(out, "stopped\n")


if __name__ == "__main__":
    unittest.main()
