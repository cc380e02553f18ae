# SPDX-License-Identifier: Apache-2.0
"""Evaluation, studies and builds under a budget: what the program's verbs do, from Python."""
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import unittest

import numpy
from common import DIGITS, Case, digits, images

import temper

PROGRAM = pathlib.Path(temper.__file__).parents[2] / "temper"


def told(*arguments, code=0):
    """The JSON that the program prints."""
    if not PROGRAM.exists():
        raise unittest.SkipTest("the package stands alone")
    done = subprocess.run([PROGRAM, *arguments, "--json", "--quiet"], capture_output=True, text=True)
    if done.returncode != code:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


class WorkflowCase(Case):
    @classmethod
    def setUpClass(cls):
        cls.pictures, cls.labels = digits()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.npz = os.path.join(cls.folder.name, "digits.npz")
        numpy.savez(cls.npz, image=cls.pictures[:200], labels=cls.labels[:200])
        cls.arrays = {"image": cls.pictures[:200], "labels": cls.labels[:200]}

    def path(self, name):
        return os.path.join(self.folder.name, name)


class EvaluateTest(WorkflowCase):
    def test_a_language_model_has_a_perplexity(self):
        import onnx
        from onnx import TensorProto, helper, numpy_helper
        table = numpy.array([[0, 2, 0], [1, 0, 3], [0.5, 1, 0]], "float32")
        graph = helper.make_graph([helper.make_node("Gather", ["table", "input_ids"], ["logits"])], "lm",
                                  [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "s"])],
                                  [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["b", "s", 3])], [numpy_helper.from_array(table, "table")])  # fmt: skip
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.path("lm.onnx"))
        ids = numpy.array([[0, 1, 2, 2], [1, 0, 0, 1]])
        nll = numpy.log(numpy.exp(table).sum(1))[ids[:, :-1]] - table[ids[:, :-1], ids[:, 1:]]
        found = temper.evaluate(self.path("lm.onnx"), {"input_ids": ids}, reference=self.path("lm.onnx"), measure=False, threads=1)
        self.assertAlmostEqual(found.perplexity.value, numpy.exp(nll.mean()), places=6)
        self.assertEqual((found.perplexity.tokens, found.perplexity.rise, found.agreement.rate), (6, 0, 1))
        self.assertIsNone(temper.evaluate(DIGITS, self.arrays, measure=False, threads=1).perplexity)

    def test_the_record_is_that_of_the_program(self):
        wanted = told("evaluate", DIGITS, "--data", self.npz, "--metric", "agreement", "--threads", "1", "--no-measure", "--samples", "90", "--seed", "4")
        for data in (self.npz, self.arrays, temper.Data(self.arrays)):
            got = temper.evaluate(DIGITS, data, metric="agreement", samples=90, seed=4, threads=1, measure=False)
            self.assertEqual({**got.record, "outputs": None}, {**wanted, "outputs": None})
            self.assertEqual([list(output) for output in got.record["outputs"]], [list(output) for output in wanted["outputs"]])

    def test_the_result_has_what_the_data_allow(self):
        with temper.build(DIGITS, shapes=[(1, 1, 8, 8), (32, 1, 8, 8), (32, 1, 8, 8)], threads=1, measure=False) as engine:
            got = temper.evaluate(engine, self.arrays)
            right = int((engine.run(self.pictures[:32])["logits"].argmax(1) == self.labels[:32]).sum())
            self.assertEqual((got.samples, got.batch, got.classes, got.output, got.top1.of), (200, 32, 10, "logits", 200))
            self.assertEqual(temper.evaluate(engine, {"image": self.pictures[:32], "labels": self.labels[:32]}).top1.count, right)
            self.assertLess(got.top1.low, got.top1.rate)
            self.assertEqual((got.agreement, got.mcnemar, got.outputs, got.left_out), (None, None, (), ()))
            beside = temper.evaluate(engine, {"image": self.pictures[:50]}, reference=engine)
            self.assertEqual((beside.top1, beside.agreement.rate, beside.agreement.of), (None, 1, 50))
            self.assertEqual((beside.outputs[0].cosine, beside.outputs[0].snr_db, beside.outputs[0].max_difference), (1, None, 0))
            engine.save(self.path("digits.plan"))
        got = temper.evaluate(self.path("digits.plan"), self.arrays, metric="snr", samples=40)
        self.assertEqual((got.samples, got.mcnemar.lost, got.reference_top1), (40, 0, got.top1))
        self.assertGreater(got.outputs[0].cosine, 0.9999)

    def test_bytes_and_graphs_are_built_for_the_data(self):
        whole = pathlib.Path(DIGITS).read_bytes()
        got = [temper.evaluate(model, self.arrays, metric="agreement", threads=1, measure=False) for model in (whole, temper.Graph.from_onnx(whole), DIGITS)]
        self.assertEqual([g.top1 for g in got], [got[0].top1] * 3)
        self.assertEqual([g.agreement.rate for g in got], [1] * 3)

    def test_what_cannot_come_out_is_refused(self):
        engine = temper.build(DIGITS, threads=1, measure=False)
        evaluate = temper.evaluate
        self.assertRefused("usage", "says nothing about the right answers", evaluate, engine, {"image": images(3)})
        self.assertRefused("usage", "no output, or more than one", evaluate, engine, {"image": images(3)}, metric="top1", reference=engine)
        self.assertRefused("usage", "bottom", evaluate, engine, self.arrays, metric="bottom")
        self.assertRefused("usage", "'other' is no input", evaluate, engine, {**self.arrays, "other": images(200)})
        self.assertRefused("usage", "f64[3,1,8,8] does not fit", evaluate, engine, {"image": images(3).astype("float64"), "labels": numpy.array([1, 2, 3])})
        self.assertRefused("usage", "3 labels for 2", evaluate, engine, {"image": images(2), "labels": numpy.array([1, 2, 3])})
        self.assertRefused("usage", "a dict of arrays", evaluate, engine, images(3))
        self.assertRefused("bad_file", "not_there", evaluate, engine, "not_there.npz")
        self.assertRefused("usage", "threads of an engine", evaluate, engine, self.arrays, threads=1)
        self.assertRefused("usage", "samples is 0", evaluate, engine, self.arrays, samples=0)
        self.assertRefused("usage", "batches of 1, not of 7", evaluate, engine, self.arrays, batch=7)
        self.assertRefused("usage", "layout is 'hwcn'", evaluate, engine, temper.Data(self.npz, layout="hwcn"))
        with self.assertRaises(TypeError):
            evaluate(DIGITS, self.arrays, thread=1)
        ranges = temper.calibrate(DIGITS, [self.pictures[:64]], threads=1)
        int8 = temper.build(DIGITS, precision="int8", calibration=ranges, threads=1, measure=False)
        self.assertRefused("usage", "calibrated on", evaluate, int8, self.arrays)
        engine.close()
        self.assertRefused("usage", "closed", evaluate, engine, self.arrays)

    def test_progress_ends_it_and_other_threads_run_meanwhile(self):
        engine = temper.build(DIGITS, threads=1, measure=False)
        lines, messages = [], []
        temper.set_log_callback(lambda level, text: messages.append((level, text)))
        self.addCleanup(temper.set_log_callback, None)
        temper.evaluate(engine, self.arrays, progress=lines.append)
        self.assertEqual(lines[:2], ["evaluating: 0 of 200 samples", "evaluating: 1 of 200 samples"])
        self.assertIn(("info", "200 samples, in batches of 1"), messages)
        raised = LookupError("mine")

        def stop(text):
            raise raised

        with self.assertRaises(LookupError) as caught:
            temper.evaluate(engine, self.arrays, progress=stop)
        self.assertIs(caught.exception, raised)
        came = threading.Event()
        thread = threading.Thread(target=came.set)

        def wait(text):
            thread.is_alive() or came.is_set() or thread.start()

        temper.evaluate(engine, self.arrays, progress=wait)
        self.assertTrue(came.wait(10))
        thread.join()


class BudgetTest(WorkflowCase):
    def test_a_budget_keeps_the_layers_that_lose_most(self):
        lines = []
        engine = temper.build(DIGITS, precision="int8", max_drop=0.02, data=self.arrays, threads=1, measure=False, progress=lines.append)
        mixed = engine.mixed
        self.assertEqual((engine.precision, mixed.precision, mixed.metric, mixed.max_drop, mixed.samples), ("int8", "int8", "top1", 0.02, 200))
        self.assertTrue(mixed.holds)
        self.assertLessEqual(mixed.drop, 0.02)
        self.assertEqual((len(mixed.layers), mixed.ranges.samples), (5, 200))
        self.assertTrue(any(line.startswith("calibrating") for line in lines), lines)
        # Layers that are raised go to BF16 or FP32.
        most = 14 if "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text() else 10
        self.assertTrue(any(line.startswith(f"mixed precision: 0 of {most} candidates at most, ") for line in lines), lines)
        # The same ranges give the same search, and a tighter budget keeps more.
        tight = temper.build(DIGITS, precision="int8", calibration=mixed.ranges, max_drop=0.000001, metric="snr", raise_to="fp32", data=self.npz,
                             threads=1, measure=False)  # fmt: skip
        self.assertIsNone(tight.mixed.ranges)
        self.assertEqual({layer.decision for layer in tight.mixed.layers} - {"int8", "fp32"}, set())
        self.assertGreater(sum(layer.decision == "fp32" for layer in tight.mixed.layers), 0)
        self.assertEqual(tight.inspect()["lowered_products"], sum(layer.decision == "int8" for layer in tight.mixed.layers))
        self.assertIsNone(temper.build(DIGITS, threads=1, measure=False).mixed)

    def test_a_budget_is_kept_for_several_profiles(self):
        engine = temper.build(DIGITS, precision="int8", max_drop=0.02, data=self.arrays, profiles=[(1, 1, 8, 8), (4, 1, 8, 8)], threads=1, measure=False)
        self.assertEqual(engine.mixed.precision, "int8")
        for count in (1, 4):
            self.assertEqual(engine.run(numpy.zeros((count, 1, 8, 8), numpy.float32))["logits"].shape, (count, 10))

    def test_best_is_the_fastest_that_keeps_the_budget(self):
        engine = temper.build(DIGITS, precision="best", max_drop=0.02, data=self.arrays, threads=1, quick=True, time_limit=60)
        tried = engine.mixed.record["tried"]
        self.assertEqual(tried[0]["precision"], "fp32")
        self.assertTrue(any(row["precision"] == "int8" for row in tried))
        times = {row["precision"]: row["ms"] for row in tried if row["ms"] is not None}
        self.assertEqual(engine.precision, min(times, key=times.get))
        self.assertEqual(engine.mixed.precision, engine.precision)
        self.assertTrue(engine.mixed.holds)

    def test_it_is_the_search_of_the_program(self):
        wanted = told("build", DIGITS, "-o", self.path("m.plan"), "--precision", "int8", "--max-drop", "0.1%", "--metric", "snr", "--raise-to", "fp32",
                      "--data", self.npz, "--samples", "150", "--seed", "2", "--threads", "1", "--quick")  # fmt: skip
        ranges = temper.Ranges.load(self.path("m.plan.ranges.json"))
        engine = temper.build(DIGITS, precision="int8", max_drop=0.001, metric="snr", raise_to="fp32", data=self.arrays, samples=150, seed=2, threads=1, measure=False)
        got = engine.mixed.record
        self.assertEqual(engine.mixed.ranges.values, ranges.values)
        for record in (got, wanted):
            for layer in record["layers"]:
                layer["saves_ms"] = None  # measured, so another one each time
        self.assertEqual(got, wanted)

    def test_what_makes_no_sense_is_refused(self):
        build = lambda **options: temper.build(DIGITS, **{"precision": "int8", "threads": 1, "quick": True, **options})  # noqa: E731
        self.assertRefused("usage", "data and max_drop go together", build, max_drop=0.01)
        self.assertRefused("usage", "data and max_drop go together", build, data=self.arrays)
        self.assertRefused("usage", "belong to max_drop", build, metric="top1")
        self.assertRefused("usage", "max_drop is 1.5", build, max_drop=1.5, data=self.arrays)
        self.assertRefused("usage", "budget for precision=\"int8\", \"fp8\", \"fp16\", \"bf16\" or \"tf32\"", build, precision="fp32", max_drop=0.01, data=self.arrays)
        self.assertRefused("usage", "raise_to", build, max_drop=0.01, data=self.arrays, raise_to="fp16")
        self.assertRefused("usage", "needs data with right answers", build, max_drop=0.01, data={"image": images(40)}, metric="top1")


class StudyTest(WorkflowCase):
    def test_a_study_compares_precisions_and_goes_on_where_it_was(self):
        lines = []
        study = lambda **more: temper.study(DIGITS, self.arrays, self.path("study"), seed=3, duration=0.1, max_drop=0.05, threads=1, quick=True, **more)  # noqa: E731
        got = study(progress=lines.append)
        self.assertEqual([row.precision for row in got.precisions], ["fp32", "int8"])
        fp32, int8 = got.precisions
        self.assertEqual((got.metric, fp32.speed, fp32.drop, int8.agreement.of), ("top1", None, None, 100))
        self.assertGreater(fp32.top1.rate, 0.9)
        self.assertIn(int8.speed.verdict, ("FASTER", "SLOWER", "SAME", "UNSURE"))
        self.assertEqual((got.over_budget, int8.over_budget, got.mixed.max_drop), (False, False, 0.05))
        self.assertTrue(got.verdict.startswith("verdict: "))
        self.assertTrue({"study.json", "study.md", "report.html", "ranges.json", "result.json", "explain.md"} <= set(os.listdir(self.path("study"))))
        self.assertEqual(json.loads(pathlib.Path(self.path("study"), "study.json").read_text()), got.record)
        self.assertTrue(os.path.samefile(got.report, self.path("study/report.html")))
        self.assertTrue(lines)
        self.assertEqual(temper.load(int8.plan).precision, "int8")
        again = study()
        self.assertEqual({**again.record, "command": ""}, {**got.record, "command": ""}, "every step was done before")

    def test_its_record_has_the_fields_of_the_program(self):
        wanted = told("study", DIGITS, "--data", self.npz, "-o", self.path("its"), "--precision", "fp32", "--duration", "50ms", "--threads", "1", "--quick", "--seed", "1")
        got = temper.study(DIGITS, self.npz, self.path("mine"), precisions=["fp32"], duration=0.05, threads=1, quick=True, seed=1).record
        self.assertEqual(list(got), list(wanted))
        self.assertEqual([list(row) for row in got["precisions"]], [list(row) for row in wanted["precisions"]])
        for record in (got, wanted):
            for name in ("schema", "seed", "calibration_samples", "evaluation_samples", "metric", "batch"):
                self.assertEqual(record[name], wanted[name], name)
        self.assertEqual([row["answers"] for row in got["precisions"]], [row["answers"] for row in wanted["precisions"]])

    def test_what_cannot_be_studied_is_refused(self):
        study = lambda *given, **options: temper.study(*given, self.path("none"), threads=1, **options)  # noqa: E731
        self.assertRefused("usage", "cannot be split", study, DIGITS, {"image": images(1), "labels": numpy.array([3])})
        self.assertRefused("usage", "duration is 0", study, DIGITS, self.arrays, duration=0)
        self.assertRefused("usage", "max_drop is 2", study, DIGITS, self.arrays, max_drop=2)
        self.assertRefused("unsupported", "int3", study, DIGITS, self.arrays, precisions=["int3"])
        self.assertRefused("bad_file", "no.onnx", study, "no.onnx", self.arrays)
        self.assertFalse(os.path.exists(self.path("none")))


if __name__ == "__main__":
    unittest.main()
