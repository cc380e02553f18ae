# SPDX-License-Identifier: Apache-2.0
"""Measuring and comparing: the same statistics, the same files, and what is refused."""
import dataclasses
import json
import os
import sys
import tempfile
import threading
import time
import unittest

from common import DIGITS, Case, images

import temper


def busy(ms):
    end = time.perf_counter() + ms / 1e3
    while time.perf_counter() < end:
        pass


class BenchTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.engine = temper.build(DIGITS, shapes=[(1, 1, 8, 8), (8, 1, 8, 8), (32, 1, 8, 8)], threads=1, quick=True)

    def compared(self, call):
        """The first of five comparisons, of which the second takes longer, that is not UNSURE, as a busy machine makes of some.

        What stays UNSURE is no failure, and has its reason: tests/measure/paired_test.cc tests verdicts on a clock of its own."""
        for _ in range(5):
            said = call()
            if said.verdict != "UNSURE":
                break
        self.assertIn(said.verdict, ("SLOWER", "UNSURE"), said)
        self.assertTrue(said.verdict == "SLOWER" or said.why, said)
        return said

    def test_an_engine_gives_the_statistics_of_the_program(self):
        result = temper.bench(self.engine, batch=8, warmup=3, iterations=60)
        self.assertEqual((result.model, result.device, result.precision, result.batch, result.threads), (DIGITS, "cpu", "fp32", 8, 1))
        self.assertEqual((result.samples, result.warmup_runs, len(result.samples_ms)), (60, 3, 60))
        self.assertTrue(0 < result.min_ms <= result.median_ms <= result.max_ms)
        if result.median_low_ms is None:  # the machine changed its speed meanwhile: no interval, and a note says why
            self.assertTrue(result.notes["latency_ms.median_ci95"], result.notes)
        else:
            self.assertTrue(result.min_ms <= result.median_low_ms <= result.median_ms <= result.median_high_ms <= result.max_ms)
        self.assertIsNone(result.p99_ms)
        self.assertIn("needs ≥ 459 samples", result.notes["latency_ms.p99"])
        self.assertEqual(result.shapes, {"image": [8, 1, 8, 8]})
        self.assertIn("random", result.notes["shapes"])
        self.assertEqual(temper.bench(self.engine, images(3), iterations=8).batch, 3)

    def test_a_nan_in_an_input_is_a_warning_that_names_it(self):
        seen, broken = [], images(3).copy()
        broken[2, 0, 1, 5] = float("nan")
        temper.set_log_callback(lambda level, text: seen.append((level, text)))
        try:
            temper.bench(self.engine, broken, iterations=8)
            temper.bench(self.engine, images(3), iterations=8)
        finally:
            temper.set_log_callback(None)
        texts = [text for level, text in seen if level == "warning" and "NaN" in text]
        self.assertEqual(texts, ["the input 'image' holds 1 value that is NaN or infinite, in 1 of 3 samples, first NaN at [0,1,5] of sample '2'"])

    def test_a_callable_is_timed_by_the_same_timer(self):
        calls = []
        result = temper.bench(lambda: (calls.append(1), busy(2)), warmup=2, iterations=10, batch=4, name="two ms")
        self.assertEqual(len(calls), 1 + 2 + 10)
        self.assertEqual((result.model, result.backend, result.batch, result.samples), ("two ms", "python", 4, 10))
        self.assertGreaterEqual(result.min_ms, 2)
        self.assertEqual(len(result.samples_ms), 10)
        self.assertAlmostEqual(result.throughput_per_s, 4e3 / result.mean_ms, delta=1)
        self.assertEqual(result.environment["logical_cores"], os.cpu_count())

    def test_arguments_of_a_callable_go_by_place_or_by_name(self):
        seen = []

        def function(*arguments, **named):
            seen.append((arguments, named))

        for inputs, expected in ((7, ((7,), {})), ((1, 2), ((1, 2), {})), ({"k": 3}, ((), {"k": 3})), (None, ((), {}))):
            temper.bench(function, inputs, warmup=0, iterations=6)
            self.assertEqual(seen[-1], expected)
        self.assertEqual(temper.bench(lambda x: x, images(5), warmup=0, iterations=6).batch, 5)

    def test_results_become_tables_and_files(self):
        results = [temper.bench(self.engine, batch=b, iterations=12) for b in (1, 8)]
        rows = [dataclasses.asdict(r) for r in results]
        self.assertEqual([row["batch"] for row in rows], [1, 8])
        self.assertGreater(len(rows[0]), 25)
        with self.assertRaises(dataclasses.FrozenInstanceError):
            results[0].batch = 2
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.json")
            temper.save_results(path, results)
            with open(path) as file:
                self.assertEqual(json.load(file)["schema"], "temper.result/1")
            self.assertEqual([r.record for r in temper.load_results(path)], [r.record for r in results])
            results[0].save(path)
            self.assertEqual(len(temper.load_results(path)), 1)
            self.assertRefused("bad_file", "", temper.load_results, DIGITS)
            self.assertRefused("usage", "no result", temper.save_results, path, [])

    def test_what_is_slower_is_called_slower(self):
        said = self.compared(lambda: temper.compare(lambda: busy(1), lambda: busy(1.5), duration=0.4))
        self.assertTrue(said.low <= said.ratio <= said.high, said)
        self.assertEqual(len(said.a_ms), len(said.b_ms))
        self.assertGreaterEqual(said.rounds, 12)

    def test_an_engine_and_a_callable_are_compared_in_turns(self):
        def thrice(image):
            for _ in range(3):
                self.engine.run(image)

        self.compared(lambda: temper.compare(self.engine, thrice, inputs=[images(32)], duration=1))

    def test_a_comparison_prints_with_and_without_an_interval(self):
        self.assertEqual(str(temper.Comparison(1.534, 1.52, 1.546, "FASTER", "")), "1.53 times as fast (1.52 to 1.55): FASTER")
        said = temper.Comparison(1.534, None, None, "UNSURE", "it drifts")
        self.assertEqual(str(said), "1.53 times as fast (too few rounds for an interval): UNSURE")

    def test_results_are_compared_as_they_are(self):
        x = images(1)

        def compared():
            engine = temper.bench(self.engine, x, iterations=50)
            python = temper.bench(lambda image: busy(2), x, model=DIGITS, threads=1, precision="fp32", iterations=50)
            return temper.compare(engine, python)

        self.compared(compared)
        engine, other = temper.bench(self.engine, x, iterations=12), temper.bench(lambda: busy(2), iterations=12)
        self.assertRefused("unsupported", "unlike|model", temper.compare, engine, other)
        self.assertLess(temper.compare(engine, other, force=True).ratio, 1)

    def test_unlike_engines_are_refused(self):
        other = temper.build(DIGITS, threads=2, quick=True)
        self.assertRefused("unsupported", "threads: 1 and 2|force=True", temper.compare, self.engine, other)

    def test_what_a_callable_raises_comes_back_as_itself(self):
        raised = ZeroDivisionError("mine")

        def fail():
            raise raised

        for call in (lambda: temper.bench(fail), lambda: temper.compare(fail, fail), lambda: temper.compare(self.engine, fail)):
            with self.assertRaises(ZeroDivisionError) as caught:
                call()
            self.assertIs(caught.exception, raised)

        def stop(text):
            raise raised

        with self.assertRaises(ZeroDivisionError):
            temper.bench(self.engine, duration=20, error=1e-9, progress=stop)

    def test_wrong_arguments_are_refused(self):
        bench = temper.bench
        self.assertRefused("usage", "iterations is 0", bench, self.engine, iterations=0)
        self.assertRefused("usage", "duration is -1", bench, self.engine, duration=-1)
        self.assertRefused("usage", "warmup is -2", bench, self.engine, warmup=-2)
        self.assertRefused("usage", "a str cannot be measured", bench, "m.plan")
        self.assertRefused("usage", "of engines", bench, lambda: 0, streams=2)
        self.assertRefused("usage", "the engine's own", bench, self.engine, threads=2)
        self.assertRefused("usage", "float64", bench, self.engine, images(1).astype("float64"))
        self.assertRefused("usage", "", bench, self.engine, batch=99)
        self.assertRefused("usage", "cannot be compared", temper.compare, self.engine, 7)

    def test_other_threads_of_python_run_while_an_engine_is_measured(self):
        counted = [0]
        stop = threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        switch = sys.getswitchinterval()
        sys.setswitchinterval(60)  # only who lets go of the GIL lets others run
        try:
            for _ in range(100):  # on a busy machine the other thread may wait for a core
                temper.bench(self.engine, duration=0.3, error=1e-9)
                if counted[0] > 20:
                    break
        finally:
            sys.setswitchinterval(switch)
            stop.set()
            thread.join()
        self.assertGreater(counted[0], 20)


if __name__ == "__main__":
    unittest.main()
