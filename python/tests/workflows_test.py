# SPDX-License-Identifier: Apache-2.0
"""What the program's verbs do, from Python: folders, profiles, explanations, reports, gates; errors; frames and notebooks."""
import importlib.util
import json
import os
import pathlib
import re
import sys
import tempfile
import types
import unittest
import unittest.mock

import numpy
import PIL.Image
from common import DIGITS, ROOT, Case, images

import temper
from temper._speech import python_of

BUILD = {"threads": 1, "measure": False}


class WorkflowsTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.engine = temper.build(DIGITS, shapes=[(1, 1, 8, 8), (4, 1, 8, 8), (4, 1, 8, 8)], **BUILD)
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.pixels = numpy.random.default_rng(5).integers(0, 256, (6, 8, 8), dtype="uint8")
        for i, picture in enumerate(cls.pixels):
            (cls.folder / "photos" / f"class{i % 2}").mkdir(parents=True, exist_ok=True)
            PIL.Image.fromarray(picture).save(cls.folder / "photos" / f"class{i % 2}" / f"{i}.png")
        (cls.folder / "names.txt").write_text("".join(f"class{i}\n" for i in range(10)))
        cls.data = temper.Data(cls.folder / "photos", class_names=cls.folder / "names.txt")
        cls.result = temper.bench(cls.engine, batch=1, duration=0.02)

    def test_a_folder_of_pictures_is_run_in_batches(self):
        answers = temper.run(self.engine, self.data)
        self.assertEqual(answers.names, tuple(f"class{k}/{i}.png" for k in (0, 1) for i in range(k, 6, 2)))
        self.assertEqual((list(answers.labels), answers.batch, len(answers)), ([0, 0, 0, 1, 1, 1], 4, 6))
        order = [0, 2, 4, 1, 3, 5]
        wanted = self.engine.run((self.pixels[order[:4]] / 255).astype("float32").reshape(4, 1, 8, 8))["logits"]
        numpy.testing.assert_allclose(answers["logits"][:4], wanted, rtol=1e-5, atol=1e-5)
        best = answers.top(3)
        for row, ranked in zip(answers["logits"], best):
            self.assertEqual([one.index for one in ranked], list(numpy.argsort(-row)[:3]))
            self.assertEqual([one.name for one in ranked], [f"class{one.index}" for one in ranked])
            shares = numpy.exp(row.astype("float64")) / numpy.exp(row.astype("float64")).sum()
            self.assertAlmostEqual(ranked[0].probability, shares.max(), places=6)
        self.assertRefused("usage", "no output 'x'", answers.top, 1, "x")

    def test_batches_come_one_by_one_and_models_are_built_for_them(self):
        for model, build in ((self.engine, {}), (DIGITS, BUILD)):
            reader = temper.batches(model, self.data, batch=4, **build)
            self.assertEqual((len(reader), reader.samples, reader.batch, reader.left_out), (2, 6, 4, ()))
            found = list(reader)
            self.assertEqual([len(one.names) for one in found], [4, 2])
            self.assertEqual(found[1].outputs["logits"].shape, (2, 10))
            numpy.testing.assert_allclose(reader.engine(found[1].inputs["image"]), found[1].outputs["logits"], rtol=1e-4, atol=1e-4)
        read = temper.batches(DIGITS, self.data, runs=False, samples=3)
        self.assertIsNone(next(iter(read)).outputs)
        self.assertRefused("usage", "only read", lambda: read.engine)
        self.assertRefused("usage", "precision of an engine", temper.batches, self.engine, self.data, precision="int8")

    def test_pictures_that_cannot_be_read_are_left_out_and_named(self):
        with tempfile.TemporaryDirectory() as folder:
            PIL.Image.fromarray(self.pixels[0]).save(os.path.join(folder, "a.png"))
            pathlib.Path(folder, "b.png").write_bytes(b"\x89PNG\r\n\x1a\nnot a picture")
            answers = temper.run(self.engine, folder)
            self.assertEqual((answers.names, [name for name, _ in answers.left_out]), (("a.png",), ["b.png"]))
            self.assertRefused("bad_file", "b.png", temper.run, self.engine, temper.Data(folder, strict=True))

    def test_values_that_are_not_finite_are_warnings_by_their_sample(self):
        said = []
        x = images(3)
        x[1, 0, 3, 3] = numpy.nan
        temper.set_log_callback(lambda level, message: said.append(message) if level == "warning" else None)
        try:
            temper.run(self.engine, {"image": x})
        finally:
            temper.set_log_callback(None)
        self.assertEqual(len(said), 1)
        self.assertIn("first NaN at [0,3,3] of sample '1'", said[0])

    def test_a_folder_calibrates(self):
        ranges = temper.calibrate(DIGITS, self.data, method="minmax", threads=1)
        given = [(self.pixels[[0, 2, 4, 1, 3, 5]] / 255).astype("float32").reshape(6, 1, 8, 8)]
        wanted = temper.calibrate(DIGITS, given, method="minmax", threads=1)
        self.assertEqual([(v.name, v.min, v.max) for v in ranges.values], [(v.name, v.min, v.max) for v in wanted.values])
        with temper.build(DIGITS, precision="int8", calibration=str(self.folder / "photos"), method="minmax", **BUILD) as built:
            self.assertEqual(built.precision, "int8")

    def test_an_engine_is_called_as_a_function(self):
        x = images(4)
        numpy.testing.assert_array_equal(self.engine(x), self.engine.run(x)["logits"])
        numpy.testing.assert_array_equal(self.engine(image=x), self.engine(x))
        self.assertRefused("usage", "given twice", self.engine, x, image=x)
        self.assertRefused("usage", "2 inputs were given; the engine takes 1", self.engine, x, x)
        self.assertRefused("usage", "'other'", self.engine, other=x)

    def test_answers_go_on_without_copies_by_every_protocol(self):
        scores = self.engine(images(1))
        shared = numpy.from_dlpack(scores)
        self.assertTrue(numpy.shares_memory(shared, scores))
        self.assertIs(numpy.asarray(scores), scores)

    def test_a_profile_has_every_step_and_is_saved_and_reported(self):
        profile = temper.profile(self.engine, images(1), duration=0.05)
        self.assertEqual([step.node for step in profile.steps], [step["node"] for step in profile.record["steps"]])
        self.assertAlmostEqual(sum(step.share for step in profile.steps), 1, places=6)
        self.assertGreater(profile.run_ms, 0)
        self.assertEqual(profile.longest(1)[0].ms, max(step.ms for step in profile.steps))
        plan, saved = str(self.folder / "m.plan"), str(self.folder / "profile.json")
        self.engine.save(plan)
        of_plan = temper.profile(plan, duration=0.05)
        self.assertEqual([step.tactic for step in of_plan.steps], [step.tactic for step in profile.steps])
        profile.save(saved)
        self.assertIn(profile.longest(1)[0].node, temper.report(saved).markdown())
        self.assertRefused("usage", "is a file that Temper did not write|another file|force=True", profile.save, str(self.folder / "names.txt"))
        self.assertRefused("usage", "is no plan; build an engine first: temper.build(", temper.profile, DIGITS)
        self.assertRefused("usage", "function has no steps", temper.profile, lambda x: x)

    def test_an_explanation_speaks_python(self):
        said = temper.explain(self.engine, duration=0.05)
        self.assertEqual([engine.asked for engine in said.engines], ["fp32"])
        for text in (str(said), *(finding.change for finding in said.engines[0].findings)):
            self.assertIsNone(re.search(r"temper (build|inspect|profile) |--(precision|quick|why|max-drop)", text), text)
        self.assertTrue(said.engines[0].findings)
        self.assertRefused("usage", "is a model, no plan", temper.explain, DIGITS)
        self.assertRefused("usage", "nothing was given", temper.explain)

    def test_a_report_takes_what_was_measured(self):
        profile = temper.profile(self.engine, duration=0.05)
        saved = self.folder / "bench.json"
        self.result.save(saved)
        report = temper.report([self.result, self.result], profile, saved)
        self.assertEqual(report.csv().count("\n"), 4)
        for ending, begin in ((".html", "<!doctype html>"), (".md", "## "), (".csv", "model,")):
            path = self.folder / f"report{ending}"
            report.save(path)
            report.save(path)
            self.assertTrue(path.read_text().startswith(begin), path.read_text()[:40])
        self.assertNotIn(str(self.folder), (self.folder / "report.html").read_text())
        self.assertRefused("usage", "ends in none of", report.save, "x.txt")
        self.assertRefused("bad_file", "names.txt", temper.report, self.folder / "names.txt")
        self.assertRefused("usage", "nothing", temper.report)

    def test_a_gate_fails_where_a_slowdown_is_beyond_doubt(self):
        slow = json.loads(json.dumps(self.result.record))
        slow["samples_ms"] = [2 * ms for ms in slow["samples_ms"]]
        for name in ("median", "min", "max", "mean"):
            slow["latency_ms"][name] *= 2
        for name in ("p90", "p95", "p99", "median_ci95"):
            slow["latency_ms"][name] = None
            slow["notes"][f"latency_ms.{name}"] = "n/a"
        path = self.folder / "slow.json"
        path.write_text(json.dumps({"schema": "temper.result/1", "environment": self.result.environment, "runs": [slow]}))
        same = temper.gate(self.result, [self.result])
        self.assertNotEqual(same.runs[0].verdict, "FAIL")
        found = temper.gate(self.result, path, max_slowdown=0.5)
        if found.runs[0].verdict == "UNSURE":  # a machine that is busy: what was measured says nothing
            self.assertTrue(found.runs[0].why)
        else:
            self.assertFalse(found)
            self.assertIn("<failure", found.junit)
        self.assertAlmostEqual(found.runs[0].slowdown, 1, places=6)
        self.assertRefused("usage", "max_slowdown is -1", temper.gate, path, path, max_slowdown=-1)


class ErrorsTest(Case):
    def test_errors_are_what_python_calls_them(self):
        engine = temper.build(DIGITS, **BUILD)
        for wanted, call in (
            (ValueError, lambda: engine.run(images(1).astype("float64"))),
            (ValueError, lambda: temper.build(DIGITS, precision="int8", **BUILD)),
            (NotImplementedError, lambda: temper.build(DIGITS, precision="fp17", **BUILD)),
            (FileNotFoundError, lambda: temper.build("there-is-none.onnx")),
            (FileNotFoundError, lambda: temper.load("there-is-none.plan")),
            (FileNotFoundError, lambda: temper.load_results("there-is-none.json")),
            (FileNotFoundError, lambda: temper.run(engine, "there-is-none")),
            (OSError, lambda: temper.load(DIGITS)),
            (NotImplementedError, lambda: temper.build(DIGITS, precision="fp16", **BUILD)),
            (TypeError, lambda: temper.build(DIGITS, threads=1.5)),
            (TypeError, lambda: temper.build(DIGITS, threads="2")),
            (TypeError, lambda: temper.build(DIGITS, precision=8)),
            (TypeError, lambda: temper.build(DIGITS, keep_first="yes")),
            (TypeError, lambda: temper.build(DIGITS, time_limit="long")),
            (TypeError, lambda: temper.build(None)),
            (ValueError, lambda: engine.run(None)),
            (ValueError, lambda: engine.bind(None)),
        ):
            with self.assertRaises(wanted) as caught:
                call()
            self.assertIsInstance(caught.exception, temper.Error)
            self.assertIsNone(re.search(r"--[a-z]|std::|nanobind|Invoked with", str(caught.exception)), str(caught.exception))

    def test_errors_keep_their_class_across_processes(self):
        import pickle

        for error in (temper.Error("words", "bad_file"), temper.ArgumentTypeError("words"), temper.MachineError("words")):
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), again.kind, str(again)), (type(error), error.kind, "words"))
        self.assertIs(type(temper.Error("words")), temper.UsageError)
        self.assertIs(type(temper.Error("words", "unsupported")), temper.UnsupportedError)

    def test_numpy_numbers_and_one_name_are_taken(self):
        engine = temper.build(DIGITS, threads=numpy.int64(1), measure=numpy.bool_(False), keep_fp32=())
        self.assertEqual(engine.threads, 1)
        with self.assertRaises(temper.UsageError) as caught:
            temper.build(DIGITS, threads=1, measure=False, disable="no_such_pass")
        self.assertIn("no_such_pass", str(caught.exception))


class SpeechTest(Case):
    def test_flags_become_arguments_and_names_stay(self):
        for text, wanted in (
            ("add --shapes images=1x3x224x224", 'add shapes={"images": (1, 3, 224, 224)}'),
            ("add --shapes ids=1x128 --shapes mask=1x128", 'add shapes={"ids": (1, 128), "mask": (1, 128)}'),
            ("use --precision bf16", 'use precision="bf16"'),
            ("--metric agreement, cosine, snr or difference", 'metric="agreement", "cosine", "snr" or "difference"'),
            ("with --threads 2", "with threads=2"),
            ("the file 'a --precision fp16' is one", "the file 'a --precision fp16' is one"),
            ("build without --quick", "build without quick=True"),
            ("--memory-limit SIZE sets another", "memory_limit=size sets another"),
            ("trtexec's --exportTimes", "trtexec's --exportTimes"),
            ("known by `temper export --past`, which writes", "known by `temper export` with its option past, which writes"),
        ):
            self.assertEqual(python_of(text), wanted)

    def test_every_flag_that_the_library_names_has_a_word_in_python(self):
        """What the front ends share speaks of flags; the exceptions are other programs' flags, and CSS."""
        others = {"backends/cuda/support/compiler.cc", "report/theme.cc", "report/figures.cc", "report/figures.h"}
        foreign = re.compile(r"--(export\w+|inputIOFormats|fp16 \(from|useCudaGraph|sparse=never|suite|all\))")
        seen = 0
        for path in sorted([*(ROOT / "src").rglob("*.cc"), *(ROOT / "src").rglob("*.h")]):
            name = path.relative_to(ROOT / "src").as_posix()
            if name.split("/")[0] in ("cli", "nvinfer", "interop", "serve") or name in others:
                continue
            text = re.sub(r"//.*", "", path.read_text())
            for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', re.sub(r'"\s*\n\s*"', "", text)):
                if re.search(r"--[a-z]", literal):
                    seen += 1
                    said = python_of(literal.replace("'", ""))  # a quote may be the half of a pair
                    self.assertIsNone(re.search(r"--[a-z]", foreign.sub("", said)), f"{name}: {said}")
        self.assertGreater(seen, 100)


class ShownTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.engine = temper.build(DIGITS, **BUILD)
        cls.result = temper.bench(lambda: None, duration=0.01, name="<b>&")

    def test_notebooks_get_tables_with_what_files_say_escaped(self):
        ranges = temper.calibrate(DIGITS, [images(4)], method="minmax", threads=1)
        x = images(4)
        shown = [self.engine, self.result, ranges, temper.Graph.from_onnx(DIGITS), temper.profile(self.engine, duration=0.02),
                 temper.explain(self.engine, duration=0.02), temper.evaluate(self.engine, {"image": x, "labels": self.engine(x[:1]).argmax(1).repeat(4)}),
                 temper.run(self.engine, {"image": x}), temper.gate(self.result, self.result)]  # fmt: skip
        for one in shown:
            text = one._repr_html_()
            self.assertIn("<table>", text)
            self.assertEqual(text.count("<td"), text.count("</td>"))
        self.assertIn("&lt;b&gt;&amp;", self.result._repr_html_())
        self.assertNotIn("<b>", self.result._repr_html_())
        self.assertIn("sandbox", temper.report(self.result)._repr_html_())

    def test_frames_have_a_row_for_each_result_and_need_pandas(self):
        made = []
        fake = types.ModuleType("pandas")
        fake.DataFrame = lambda rows: made.append(rows) or rows
        with unittest.mock.patch.dict(sys.modules, {"pandas": fake}):
            temper.frame([self.result, self.result])
            temper.frame(temper.profile(self.engine, duration=0.02))
            temper.frame(temper.run(self.engine, {"image": images(3)}))
            self.assertRefused("usage", "no result", temper.frame, {"a": 1})
        self.assertEqual([len(rows) for rows in made][0::2], [2, 3])
        self.assertEqual(made[0][0]["median_ms"], self.result.median_ms)
        self.assertEqual(made[1][0]["node"], temper.profile(self.engine, duration=0.02).steps[0].node)
        self.assertEqual(made[2][1]["sample"], "1")
        with unittest.mock.patch.dict(sys.modules, {"pandas": None}):
            with self.assertRaises(ImportError) as caught:
                temper.frame(self.result)
        self.assertIn("pip install pandas", str(caught.exception))

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
    def test_pandas_takes_them(self):
        self.assertEqual(temper.frame([self.result]).loc[0, "median_ms"], self.result.median_ms)


if __name__ == "__main__":
    unittest.main()
