# SPDX-License-Identifier: Apache-2.0
"""Building, loading, saving, running: answers, and what is refused."""
import gc
import os
import shutil
import tempfile
import unittest

import numpy
import onnx
import onnxruntime
from common import DIGITS, Case, images

import temper

SHAPES = [(1, 1, 8, 8), (8, 1, 8, 8), (32, 1, 8, 8)]


class EngineTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.engine = temper.build(DIGITS, shapes=SHAPES, threads=1, measure=False)
        cls.reference = onnxruntime.InferenceSession(DIGITS)

    def test_answers_equal_onnx_runtime(self):
        for count in (1, 5, 32):
            x = images(count, seed=count)
            for given in ({"image": x}, [x], (x,), x):
                answer = self.engine.run(given)
                self.assertEqual(list(answer), ["logits"])
                numpy.testing.assert_allclose(answer["logits"], self.reference.run(None, {"image": x})[0], rtol=1e-4, atol=1e-4)

    def test_ports_name_dtypes_and_open_dimensions(self):
        self.assertEqual(self.engine.inputs, [temper.Port("image", "float32", ("batch", 1, 8, 8))])
        self.assertEqual(self.engine.outputs, [temper.Port("logits", "float32", ("batch", 10))])
        self.assertEqual((self.engine.precision, self.engine.device, self.engine.threads), ("fp32", "cpu", 1))
        self.assertIn("image: float32['batch', 1, 8, 8]", repr(self.engine))

    def test_a_scalar_has_the_shape_of_its_array(self):
        text = '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x, float s) => (float[n] y) { y = Mul (x, s) }'
        given = {"x": numpy.ones(3, numpy.float32), "s": numpy.array(2, numpy.float32)}
        shapes = {name: array.shape for name, array in given.items()}
        with temper.build(onnx.parser.parse_model(text), shapes=shapes, threads=1, measure=False) as engine:
            numpy.testing.assert_array_equal(engine.run(given)["y"], [2, 2, 2])
        self.assertRefused("usage", "s", temper.build, onnx.parser.parse_model(text), shapes={"x": (3,), "s": (1,)})

    def test_axes_of_one_name_that_are_not_equal_are_told_apart(self):
        text = """<ir_version: 8, opset_import: ["" : 17]> g (float[batch, width] x, float[batch, width] y) => (float[batch, n] z) {
            z = Concat <axis = 1> (x, y) }"""
        given = {"x": numpy.ones((2, 3), numpy.float32), "y": numpy.zeros((2, 5), numpy.float32)}
        with temper.build(onnx.parser.parse_model(text), shapes={n: a.shape for n, a in given.items()}, measure=False) as engine:
            numpy.testing.assert_array_equal(engine.run(given)["z"], numpy.concatenate(list(given.values()), 1))
            self.assertIn("axis 1 of input 'y' has the name 'width'", "".join(engine.notes))

    def test_bytes_and_model_protos_build_as_files_do(self):
        x = images(2)
        model = onnx.load(DIGITS)
        for source in (model, model.SerializeToString()):
            with temper.build(source, shapes={"image": (2, 1, 8, 8)}, threads=1, measure=False) as engine:
                numpy.testing.assert_allclose(engine.run(x)["logits"], self.engine.run(x)["logits"], rtol=1e-4, atol=1e-5)

    def test_a_saved_engine_answers_the_same_when_loaded(self):
        x = images(8)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.plan")
            self.engine.save(path)
            with temper.load(path) as loaded:
                numpy.testing.assert_array_equal(loaded.run(x)["logits"], self.engine.run(x)["logits"])
            self.assertRefused("usage", "closed", loaded.run, x)

    def test_plans_and_times_live_in_memory(self):
        x = images(8)
        with temper.load(self.engine.to_bytes()) as loaded:
            numpy.testing.assert_array_equal(loaded.run(x)["logits"], self.engine.run(x)["logits"])
        self.assertRefused("bad_file", "plan", temper.load, b"no plan")
        self.assertRefused("usage", "map_file", temper.load, self.engine.to_bytes(), map_file=True)
        times = temper.Timings()
        empty = times.to_bytes()
        temper.build(DIGITS, threads=1, quick=True, timing_cache=times)
        self.assertGreater(len(times.to_bytes()), len(empty) + 1000)
        again = temper.Timings(times.to_bytes())
        again.add(times)
        self.assertEqual(again.to_bytes(), times.to_bytes())
        self.assertRefused("bad_file", "damaged", temper.Timings, b"{}")

    def test_several_profiles_are_taken_and_shapes_of_outputs_known_beforehand(self):
        engine = temper.build(DIGITS, profiles=[(1, 1, 8, 8), [(3, 1, 8, 8), (4, 1, 8, 8), (4, 1, 8, 8)]], threads=1, measure=False)
        made = engine.statistics().plans_made
        for count in (1, 3, 4):
            self.assertEqual(engine.output_shapes({"image": (count, 1, 8, 8)}), {"logits": (count, 10)})
            self.assertEqual(engine.output_shapes([(count, 1, 8, 8)]), {"logits": (count, 10)})
        self.assertEqual(engine.statistics().plans_made, made)
        self.assertEqual(engine.run(images(3))["logits"].shape, (3, 10))
        self.assertEqual(len(engine.inspect()["profiles"]), 2)
        self.assertRefused("usage", "none of the engine's 2 profiles", engine.run, images(2))
        self.assertRefused("usage", "none of the engine's 2 profiles", engine.output_shapes, [(2, 1, 8, 8)])
        self.assertRefused("usage", "'picture'", engine.output_shapes, {"picture": (1, 1, 8, 8)})
        self.assertRefused("usage", "shapes and profiles", temper.build, DIGITS, shapes=(1, 1, 8, 8), profiles=[(1, 1, 8, 8)])
        self.assertRefused("usage", "runs on cpu", engine.run, images(1), stream=0)

    def test_nothing_that_is_saved_replaces_an_input_or_a_file_of_another_kind(self):
        def content(path):
            with open(path, "rb") as file:
                return file.read()

        with tempfile.TemporaryDirectory() as folder:
            model, plan, link, notes = (os.path.join(folder, name) for name in ("m.onnx", "m.plan", "link", "notes.txt"))
            shutil.copy(DIGITS, model)
            os.symlink("m.onnx", link)
            with open(notes, "w") as file:
                file.write("mine")
            before = content(model)
            with temper.build(model, threads=1, measure=False) as engine:
                for path in (model, link):
                    for force in (False, True):
                        self.assertRefused("usage", "is one of the files to read", engine.save, path, force=force)
                self.assertRefused("usage", "is a file that Temper did not write, which a plan would replace|force=True", engine.save, notes)
                engine.save(plan)
                engine.save(plan)
            with temper.load(plan) as loaded:
                self.assertRefused("usage", "is one of the files to read", loaded.save, plan, force=True)
            ranges = temper.calibrate(DIGITS, [images(4)], method="minmax", threads=1)
            result = temper.bench(lambda x: None, [images(1)], duration=0.01)
            for save in (ranges.save, result.save, lambda path: temper.save_results(path, [result])):
                self.assertRefused("usage", "is an ONNX model, which", save, model)
                self.assertRefused("usage", "is a plan, which", save, plan)
            for cache in (model, notes):
                self.assertRefused("usage", "no timing cache", temper.build, DIGITS, threads=1, timing_cache=cache)
            self.assertEqual((content(model), content(notes)), (before, b"mine"))
            data = os.path.join(folder, "x.npy")
            numpy.save(data, images(4))
            given = temper.calibrate(model, data, method="minmax", threads=1)
            with temper.load(plan) as loaded:
                measured = [temper.bench(loaded, duration=0.01), temper.profile(plan, duration=0.01), temper.explain(loaded, plan, duration=0.01)]
            for path, saves in ((model, [given.save]), (link, [given.save]), (data, [given.save]), (plan, [one.save for one in measured])):
                for save in saves:
                    self.assertRefused("usage", "is one of the files to read", save, path, force=True)
            self.assertRefused("usage", "is one of the files to read", temper.save_results, plan, [result, measured[0]], force=True)
            self.assertEqual(content(model), before)
            ranges.save(notes, force=True)
            result.save(notes, force=True)
            self.assertEqual(len(temper.load_results(notes)), 1)

    def test_where_there_is_no_cache_folder_an_engine_is_built_all_the_same(self):
        before = {name: os.environ.pop(name, None) for name in ("HOME", "XDG_CACHE_HOME")}
        said = []
        temper.set_log_callback(lambda level, message: said.append((level, message)))
        try:
            temper.build(DIGITS, threads=1, quick=True)
        finally:
            temper.set_log_callback(None)
            os.environ.update({name: value for name, value in before.items() if value is not None})
        self.assertIn("neither XDG_CACHE_HOME nor HOME is set", "".join(message for level, message in said if level == "warning"))

    def test_wrong_inputs_are_refused_with_the_fix(self):
        x = images(4)
        run = self.engine.run
        self.assertRefused("usage", "'image' was given float64; expected is float32|x.astype(\"float32\")", run, x.astype(numpy.float64))
        self.assertRefused("usage", "not contiguous in C order|ascontiguousarray", run, numpy.asfortranarray(x))
        self.assertRefused("usage", "not contiguous in C order", run, images(8)[::2])
        self.assertRefused("usage", "shape [4,8,8]|f32[batch,1,8,8] from [1,1,8,8] to [32,1,8,8]", run, x[:, 0].copy())
        self.assertRefused("usage", "shape [33,1,8,8]", run, images(33))
        self.assertRefused("usage", "2 inputs were given", run, [x, x])
        self.assertRefused("usage", "no array was given for the input 'image'", run, {"picture": x})
        self.assertRefused("usage", "there is no input 'extra'", run, {"image": x, "extra": x})
        self.assertRefused("usage", "is a list|numpy.asarray", run, [[1.0, 2.0]])
        self.assertRefused("usage", "is a str", run, "digits.png")
        self.assertRefused("usage", "big-endian", run, x.astype(">f4"))
        self.assertRefused("usage", "no type for", run, x.astype(numpy.complex64))

    def test_arrays_that_may_not_be_written_to_are_read(self):
        x = images(3)
        expected = self.engine.run(x)["logits"]
        x.flags.writeable = False
        numpy.testing.assert_array_equal(self.engine.run(x)["logits"], expected)

    def test_outputs_are_the_callers_own(self):
        x = images(2)
        first = self.engine.run(x)["logits"]
        kept = first.copy()
        self.engine.run(images(2, seed=9))
        numpy.testing.assert_array_equal(first, kept)
        self.assertTrue(first.flags.owndata and first.flags.writeable)

    def test_a_closed_engine_refuses_and_so_do_its_sessions(self):
        engine = temper.build(DIGITS, threads=1, measure=False)
        session = engine.session()
        x = images(1)
        session.run(x)
        self.assertIn("built for 1", engine.notes[0])
        engine.close()
        engine.close()
        self.assertTrue(engine.closed)
        for call in (lambda: engine.run(x), lambda: session.run(x), engine.session, lambda: engine.inputs, lambda: engine.save("x.plan")):
            self.assertRefused("usage", "the engine is closed", call)
        with self.assertRaises(TypeError):
            __import__("pickle").dumps(self.engine)

    def test_a_closed_session_refuses_and_the_engine_goes_on(self):
        session = self.engine.session()
        session.close()
        self.assertRefused("usage", "the session is closed", session.run, images(1))
        self.engine.run(images(1))

    def test_a_session_counts_its_runs_and_the_plans_it_made(self):
        session = self.engine.session()
        session.prepare([(3, 1, 8, 8)])
        self.assertEqual((session.runs, session.plans_made), (0, 1))
        session.run(images(3))
        session.run(images(8))
        self.assertEqual((session.runs, session.plans_made), (2, 1))
        self.assertGreater(session.arena_bytes, 0)

    def test_what_is_kept_of_shapes_is_limited_and_counted(self):
        with temper.build(DIGITS, threads=1, measure=False, timing_cache=None, shapes={"image": [(1, 1, 8, 8), (1, 1, 8, 8), (32, 1, 8, 8)]}) as engine:
            built = engine.statistics().plans
            engine.set_limits(plans=3)
            engine.set_limits(prepared=2)
            self.assertEqual((engine.limits.plans, engine.limits.prepared), (3, 2))
            session = engine.session()
            for n in range(2, 12):
                numpy.testing.assert_allclose(session.run(images(n))["logits"], self.reference.run(None, {"image": images(n)})[0], rtol=1e-4, atol=1e-4)
            counted = engine.statistics()
            self.assertGreater(counted.plans_made, 5)  # some sizes were built for
            self.assertEqual((counted.plans, counted.evictions), (built + 3, counted.plans_made - 3))
            self.assertGreater(counted.plan_bytes, 0)
            self.assertEqual((session.prepared, session.evictions), (2, 8))
            self.assertGreater(session.prepared_bytes, 0)
            self.assertRefused("usage", "at least 1", lambda: engine.set_limits(plans=0))

    def test_a_loaded_plan_does_not_need_its_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.plan")
            self.engine.save(path)
            expected = self.engine.run(images(8))["logits"]
            mapped = temper.load(path, map_file=True)
            numpy.testing.assert_array_equal(mapped.run(images(8))["logits"], expected)
            mapped.close()
            loaded = temper.load(path)
            numpy.testing.assert_array_equal(loaded.run(images(8))["logits"], expected)
            os.truncate(path, 0)
            numpy.testing.assert_array_equal(loaded.run(images(8))["logits"], expected)
            self.assertRefused("bad_file", "empty", temper.load, path)

    def test_what_the_callback_raises_comes_back_as_itself(self):
        raised = KeyError("mine")

        def fail(text):
            raise raised

        with self.assertRaises(KeyError) as caught:
            temper.build(DIGITS, measure=False, progress=fail)
        self.assertIs(caught.exception, raised)

    def test_progress_is_told_in_words(self):
        seen = []
        temper.build(DIGITS, threads=1, timing_cache=None, progress=seen.append)
        self.assertIn("optimising the graph", seen)
        self.assertTrue(any("measuring candidates" in line for line in seen), seen)

    def test_wrong_arguments_of_build_are_refused(self):
        build = temper.build
        self.assertRefused("bad_file", "missing.onnx", build, "missing.onnx")
        self.assertRefused("bad_file", "", build, b"no model")
        self.assertRefused("usage", "onnx.ModelProto", build, 7)
        self.assertRefused("usage", "neither a shape", build, DIGITS, shapes=[(1, 1, 8, 8), (2, 1, 8, 8)])
        self.assertRefused("usage", "picture|image", build, DIGITS, shapes={"picture": (1, 1, 8, 8)})
        self.assertRefused("unsupported", "fp7", build, DIGITS, precision="fp7")
        self.assertRefused("usage", "threads is -1", build, DIGITS, threads=-1)
        self.assertRefused("bad_file", "the limit is 1000 bytes", build, DIGITS, memory_limit=1000)
        self.assertRefused("bad_file", "the limit is 1; node_limit=", build, DIGITS, node_limit=1)
        self.assertRefused("usage", "depth_limit", build, DIGITS, depth_limit=257)
        self.assertRefused("usage", "loop_limit is 0", build, DIGITS, loop_limit=0)
        self.assertRefused("check_failed", "the build takes longer than 1e-09 s; build_limit=", build, DIGITS, build_limit=1e-9)
        self.assertRefused("usage", "build_limit is 0", build, DIGITS, build_limit=0)
        self.assertRefused("usage", "progress is a int", build, DIGITS, progress=7)
        self.assertRefused("bad_file", "not a plan", temper.load, DIGITS)

    def test_a_dropped_engine_gives_its_memory_back(self):
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        x = images(2)

        def rounds(count):
            for _ in range(count):
                session = self.engine.session()
                for _ in range(200):
                    session.run(x)
            gc.collect()
            return resident()

        before = rounds(20)
        self.assertLess(rounds(20) - before, 8 << 20)


if __name__ == "__main__":
    unittest.main()
