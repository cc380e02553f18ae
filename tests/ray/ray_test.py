#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""temper.ray on clusters of several nodes on loopback: beside one machine, and with faults.

usage: ray_test.py BUILD [-k NAME]     ./dev test-ray gives the first
"""
import argparse
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib

import numpy as np
from cluster import Nodes, processes, ray  # first: it says how Ray is started

import temper
import temper.ray

arguments = argparse.ArgumentParser()
arguments.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
arguments.add_argument("-k", default="")
options = arguments.parse_args()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = str(options.build / "temper")
DIGITS = str(ROOT / "models/digits_cnn.onnx")


def program(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout


def samples(count, seed):
    """Pictures that are no digits, with the classes that the model gives most of them: a few are wrong."""
    draw = np.random.default_rng(seed)
    pictures = draw.random((count, 1, 8, 8), dtype=np.float32)
    labels = temper.build(DIGITS, shapes=(count, 1, 8, 8), threads=1, measure=False).run(pictures)["logits"].argmax(1)
    labels[::7] = draw.integers(0, 10, len(labels[::7]))
    return pictures, labels


def write_png(path, picture):
    """Eight bits of grey."""
    height, width = picture.shape
    rows = b"".join(b"\0" + bytes(row) for row in picture.astype(np.uint8))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))  # noqa: E731
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def once(folder, name):
    """True the first time, whoever asks."""
    try:
        os.close(os.open(os.path.join(folder, name), os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


def faults():
    """In every process that runs tasks: what the files in TEMPER_RAY_FAULTS ask for. A test puts them there."""
    import resource

    from temper.ray import _machines, _shares

    folder = os.environ["TEMPER_RAY_FAULTS"]
    asks = lambda name: os.path.exists(os.path.join(folder, name))  # noqa: E731
    if asks("full-disk"):  # a limit on the size of files stands for a full disk: writing fails in the middle
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    def with_faults(share, number_of):
        def work(*given):
            number = number_of(given)
            if asks(f"kill-before-{number}") and once(folder, f"killed-before-{number}"):
                os.kill(os.getpid(), signal.SIGKILL)
            if asks(f"hang-{number}") and once(folder, f"hanging-{number}"):
                pathlib.Path(folder, "node").write_text(ray.get_runtime_context().get_node_id())
                time.sleep(600)
            made = share(*given)
            if asks(f"kill-after-{number}") and once(folder, f"killed-after-{number}"):
                os.kill(os.getpid(), signal.SIGKILL)
            if asks(f"kill-always-{number}"):
                os.kill(os.getpid(), signal.SIGKILL)
            return made

        work.__name__ = share.__name__
        return work

    _shares._calibrated_share = with_faults(_shares._calibrated_share, lambda given: given[6]["number"])
    _shares._evaluated_share = with_faults(_shares._evaluated_share, lambda given: given[6]["number"])
    _machines._built = with_faults(_machines._built, lambda given: "build")


class OnNodes(unittest.TestCase):
    """A cluster of the class's own; `environments`: by node, what it has of its own."""

    environments = ({}, {}, {})

    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="temper-ray-"))
        cls.addClassCleanup(subprocess.run, ["rm", "-rf", cls.work])
        cls.faults = cls.work / "faults"
        cls.faults.mkdir()
        os.environ["TEMPER_RAY_FAULTS"] = str(cls.faults)
        os.environ["XDG_CACHE_HOME"] = str(cls.work / "cache")
        cls.nodes = Nodes(hook=faults, path=str(pathlib.Path(__file__).parent))
        cls.addClassCleanup(cls.nodes.stop)
        cls.added = [cls.nodes.add(**environment) for environment in cls.environments]
        cls.pictures, cls.labels = samples(200, 1)
        cls.arrays = str(cls.work / "samples.npz")
        np.savez(cls.arrays, image=cls.pictures, labels=cls.labels)
        cls.only = str(cls.work / "pictures.npy")
        np.save(cls.only, cls.pictures)
        cls.folder = cls.work / "folder"
        for number in range(60):
            place = cls.folder / str(number % 10)
            place.mkdir(parents=True, exist_ok=True)
            write_png(place / f"{number:03}.png", 255 * cls.pictures[number, 0])

    def fault(self, *names):
        for name in names:
            (self.faults / name).touch()
        self.addCleanup(lambda: [path.unlink() for path in self.faults.iterdir()])

    def assertRefused(self, kind, words, call, *given, **named):
        with self.assertRaises(temper.Error) as caught:
            call(*given, **named)
        self.assertEqual(caught.exception.kind, kind, str(caught.exception))
        for word in words.split("|"):
            self.assertIn(word, str(caught.exception))
        self.assertNotIn("Traceback", str(caught.exception))


class OneKindOfMachine(OnNodes):
    def ranges_of_the_program(self, data, *more):
        path = self.work / f"{self.id()}.json"
        program("calibrate", DIGITS, "--data", data, "-o", path, "--method", "entropy", "--threads", 1, "--force", *more)
        return path.read_bytes()

    def calibrated(self, data, **more):
        path = self.work / "joined.json"
        temper.ray.calibrate(DIGITS, data, method="entropy", **more).save(path, force=True)
        return path.read_bytes()

    def test_ranges_are_those_of_the_program_byte_for_byte_at_any_number_of_parts(self):
        wanted = self.ranges_of_the_program(self.only, "--batch", 8)
        for parts in (1, 2, 7, 40):  # of 25 batches: some parts have none
            self.assertEqual(self.calibrated(self.only, batch=8, parts=parts), wanted, parts)
        self.assertEqual(self.calibrated({"image": self.pictures}, batch=8, parts=7), wanted, "arrays")
        self.assertEqual(self.calibrated(self.only, batch=8, parts=3, samples=50, seed=4),
                         self.ranges_of_the_program(self.only, "--batch", 8, "--samples", 50, "--seed", 4))  # fmt: skip
        self.assertEqual(self.calibrated(self.only), self.ranges_of_the_program(self.only), "batches as large as is usual")

    def test_workers_that_are_killed_change_no_byte_of_the_ranges(self):
        wanted = self.ranges_of_the_program(self.only, "--batch", 8)
        self.fault("kill-before-0", "kill-after-3", "kill-before-6", "kill-after-6")
        self.assertEqual(self.calibrated(self.only, batch=8, parts=7), wanted)
        self.assertEqual({path.name for path in self.faults.glob("killed-*")}, {"killed-before-0", "killed-after-3", "killed-before-6", "killed-after-6"})

    def test_a_node_that_is_killed_and_one_that_joins_late_change_no_byte(self):
        wanted = self.ranges_of_the_program(self.only, "--batch", 8)
        extra = self.nodes.add(resources={"extra": 1})
        self.fault("hang-4")
        made = []
        work = threading.Thread(target=lambda: made.append(self.calibrated(self.only, batch=8, parts=7, resources={"extra": 0.01})))
        work.start()
        while not (self.faults / "node").exists():
            time.sleep(0.05)
        self.nodes.kill(extra)
        work.join(1)
        self.assertTrue(work.is_alive(), "nobody has what the parts need")
        late = self.nodes.add(resources={"extra": 1})
        work.join(300)
        self.nodes.kill(late)
        self.assertEqual(made, [wanted])

    def test_a_part_that_always_kills_its_worker_is_one_clear_error(self):
        self.fault("kill-always-1")
        self.assertRefused("machine", "part 2 of 3 was lost with its worker", temper.ray.calibrate, DIGITS, self.only, parts=3, batch=8)

    def test_pictures_that_cannot_be_read_are_left_out_as_on_one_machine(self):
        broken = self.folder / "4" / "004.png"
        whole = broken.read_bytes()
        broken.write_bytes(whole[:40])
        self.addCleanup(broken.write_bytes, whole)
        self.assertEqual(self.calibrated(self.folder, batch=8, parts=5), self.ranges_of_the_program(self.folder, "--batch", 8))
        plan = temper.build(DIGITS, shapes=([1, 1, 8, 8], [8, 1, 8, 8], [8, 1, 8, 8]), threads=1, measure=False).to_bytes()
        wanted = temper.evaluate(temper.load(plan), self.folder, batch=8)
        got = temper.ray.evaluate(plan, self.folder, batch=8, parts=5)
        self.assertEqual(dict(got.record, model=""), dict(wanted.record, model=""))
        self.assertEqual([name for name, _ in got.left_out], ["4/004.png"])
        self.assertRefused("bad_file", "004.png|on node", temper.ray.calibrate, DIGITS, temper.Data(self.folder, strict=True), parts=3, batch=8)

    def test_figures_are_those_of_one_machine_to_the_last_bit(self):
        shapes = ([1, 1, 8, 8], [16, 1, 8, 8], [16, 1, 8, 8])
        ranges = temper.calibrate(DIGITS, [samples(64, 2)[0]], threads=1)
        fp32 = temper.build(DIGITS, shapes=shapes, threads=1, measure=False)
        int8 = temper.build(DIGITS, shapes=shapes, precision="int8", calibration=ranges, threads=1, measure=False)
        wanted = temper.evaluate(int8, self.arrays, reference=fp32, batch=16)
        self.assertTrue(0 < wanted.top1.rate < 1 and wanted.outputs[0].snr_db > 5)
        a, b = fp32.to_bytes(), int8.to_bytes()
        for parts in (1, 2, 7, 20):
            got = temper.ray.evaluate(b, self.arrays, reference=a, batch=16, parts=parts)
            self.assertEqual(dict(got.record, model=""), dict(wanted.record, model=""), parts)
        self.fault("kill-before-1", "kill-after-2")
        got = temper.ray.evaluate(b, self.arrays, reference=a, batch=16, parts=4, metric="top1")
        self.assertEqual(dict(got.record, model=""), dict(wanted.record, model=""), "workers killed")
        self.assertEqual((got.mcnemar, got.top1), (wanted.mcnemar, wanted.top1))
        beside_model = temper.ray.evaluate(b, self.arrays, reference_model=DIGITS, batch=16, parts=3)
        self.assertEqual(beside_model.top1, wanted.top1)
        both = temper.ray.compare(a, b, self.arrays, batch=16, duration=0.2, parts=2)
        self.assertEqual(dict(both.answers.record, model=""), dict(wanted.record, model=""))
        self.assertIn(both.speed.verdict, ("FASTER", "SLOWER", "SAME", "UNSURE"))

    def test_values_that_are_not_finite_are_counted_once(self):
        pictures = self.pictures.copy()
        pictures[33, 0, 0, 0] = np.nan
        shapes = ([1, 1, 8, 8], [16, 1, 8, 8], [16, 1, 8, 8])
        engine = temper.build(DIGITS, shapes=shapes, threads=1, measure=False)
        arrays = {"image": pictures, "labels": self.labels}
        wanted = temper.evaluate(engine, arrays, reference=engine, batch=16)
        got = temper.ray.evaluate(engine.to_bytes(), arrays, reference=engine.to_bytes(), batch=16, parts=5)
        self.assertEqual(dict(got.record, model=""), dict(wanted.record, model=""))

    def test_a_study_of_each_model_gives_the_counts_of_one_machine(self):
        how = {"precisions": ("fp32", "int8"), "threads": 1, "duration": 0.1, "batch": 8, "quick": True, "timing_cache": None}
        wanted = temper.study(DIGITS, self.arrays, self.work / "here", **how)
        got = temper.ray.study({"one": DIGITS, "two": DIGITS}, self.arrays, self.work / "there", **how)
        self.assertEqual(list(got), ["one", "two"])
        for made in got.values():
            for mine, theirs in zip(made.precisions, wanted.precisions, strict=True):
                self.assertEqual((mine.precision, mine.top1, mine.over_budget), (theirs.precision, theirs.top1, theirs.over_budget))
            self.assertTrue(os.path.exists(made.report))
        ranges = [(self.work / name / "ranges.json").read_bytes() for name in ("here", "there/one", "there/two")]
        self.assertEqual(len(set(ranges)), 1)

    def test_what_is_wrong_is_said_once_and_names_the_node(self):
        self.assertRefused("usage", "auto", temper.ray.calibrate, DIGITS, self.only, method="auto")
        self.assertRefused("bad_file", "is not there|on node 127.0.0.1", temper.ray.calibrate, "/nowhere/model.onnx", self.only, parts=2)
        self.assertRefused("bad_file", "the data|is not there", temper.ray.calibrate, DIGITS, "/nowhere/data", parts=2)
        self.assertRefused("usage", "method", temper.ray.calibrate, DIGITS, self.only, method="best", parts=2)
        self.assertRefused("usage", "right answers", temper.ray.evaluate, temper.build(DIGITS, measure=False).to_bytes(), self.only, parts=2)
        self.assertRefused("bad_file", "plan", temper.ray.evaluate, b"no plan", self.arrays, parts=2)

    def test_telemetry_is_off_and_everything_listens_on_loopback(self):
        from ray._common.usage import usage_lib

        self.assertFalse(usage_lib.usage_stats_enabled())
        own = set(processes())
        listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True)
        if listening.returncode == 0:
            for line in listening.stdout.splitlines():
                if any(f"pid={pid}," in line for pid in own):
                    self.assertRegex(line.split()[3], r"^(127\.0\.0\.1|\[::ffff:127\.0\.0\.1\]):")


class PredictorRuns(OnNodes):
    environments = ({"cpus": 2}, {"cpus": 2})

    def answers(self, dataset, *given, batch_size=24, **how):
        made = dataset.map_batches(temper.ray.Predictor, fn_constructor_args=given, fn_constructor_kwargs=how, batch_size=batch_size, compute=ray.data.ActorPoolStrategy(size=2),
                                   num_cpus=1)  # fmt: skip
        rows = made.take_all()
        return sorted(rows, key=lambda row: row["id"]) if rows and "id" in rows[0] else rows

    def dataset(self, **more):
        ids = np.arange(len(self.pictures))
        return ray.data.from_numpy_refs([ray.put(part) for part in np.array_split(ids, 5)]).map_batches(
            lambda batch, pictures=ray.put(self.pictures): {"id": batch["data"], "image": ray.get(pictures)[batch["data"]]} | {k: ray.get(pictures)[batch["data"]] for k in more})  # fmt: skip

    def test_every_row_is_answered_once_as_in_one_process(self):
        for shapes in ((16, 1, 8, 8), ([4, 1, 8, 8], [16, 1, 8, 8], [64, 1, 8, 8])):
            engine = temper.build(DIGITS, shapes=shapes, threads=1, measure=False)
            path = self.work / "digits.plan"
            engine.save(path)
            wanted = np.concatenate([engine.run(part)["logits"] for part in np.array_split(self.pictures[:192], 12)])
            for plan in (str(path), engine.to_bytes(), ray.put(engine.to_bytes())):
                rows = self.answers(self.dataset(), plan)
                self.assertEqual([row["id"] for row in rows], list(range(200)))
                self.assertEqual(set(rows[0]), {"id", "logits"})
                np.testing.assert_allclose([row["logits"] for row in rows[:192]], wanted, rtol=1e-5, atol=1e-5)

    def test_columns_and_outputs_are_named(self):
        plan = temper.build(DIGITS, shapes=(8, 1, 8, 8), threads=1, measure=False).to_bytes()
        rows = self.answers(self.dataset(picture=1), plan, columns="picture", keep=["id"])
        self.assertEqual(set(rows[0]), {"id", "logits"})
        predictor = temper.ray.Predictor(plan)
        self.assertRefused("usage", "no column 'image'|columns=", predictor, {"x": self.pictures})
        self.assertRefused("usage", "float64", predictor, {"image": self.pictures.astype(np.float64)})
        self.assertRefused("usage", "called as an output", predictor, {"image": self.pictures, "logits": self.labels})
        self.assertRefused("usage", "names the input 'x'", temper.ray.Predictor, plan, columns={"x": "image"})
        self.assertRefused("usage", "a plan, or a model", temper.ray.Predictor)
        self.assertRefused("usage", "cannot be changed", temper.ray.Predictor, plan, precision="int8")
        read_only = self.pictures[:8].copy()
        read_only.flags.writeable = False
        self.assertEqual(predictor({"image": read_only})["logits"].shape, (8, 10))

    def test_a_model_is_built_where_no_plan_is_for_the_machine(self):
        rows = self.answers(self.dataset(), model=DIGITS, shapes=(24, 1, 8, 8), threads=1, quick=True)
        self.assertEqual([row["id"] for row in rows], list(range(200)))

    def test_a_full_disk_loses_no_answer(self):
        self.fault("full-disk")
        rows = self.answers(self.dataset(), model=DIGITS, shapes=(24, 1, 8, 8), threads=1, quick=True)
        self.assertEqual([row["id"] for row in rows], list(range(200)))
        plans = temper.ray.build(DIGITS, shapes=(8, 1, 8, 8), quick=True)
        self.assertEqual(temper.load(next(iter(plans.values()))).run(self.pictures[:8])["logits"].shape, (8, 10))
        self.assertRefused("machine", "on node", temper.ray.study, {"digits": DIGITS}, self.arrays, self.work / "full", duration=0.1, quick=True)

    def test_an_actor_that_is_killed_loses_no_row(self):
        plan = temper.build(DIGITS, shapes=(8, 1, 8, 8), threads=1, measure=False).to_bytes()
        folder = str(self.faults)

        class Mortal(temper.ray.Predictor):
            def __call__(self, batch):
                if 100 in batch["id"] and once(folder, "killed-actor"):
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().__call__(batch)

        self.fault()
        made = self.dataset().map_batches(Mortal, fn_constructor_args=[plan], batch_size=8, compute=ray.data.ActorPoolStrategy(size=2), num_cpus=1)
        self.assertEqual(sorted(row["id"] for row in made.take_all()), list(range(200)))
        self.assertTrue((self.faults / "killed-actor").exists())


@unittest.skipUnless("avx512f" in open("/proc/cpuinfo").read(), "a machine with AVX-512 stands in for an older one")
class TwoKindsOfMachines(OnNodes):
    environments = ({"resources": {"new": 1}}, {"resources": {"new": 1}}, {"TEMPER_ISA": "avx2", "resources": {"old": 1}})

    def test_each_kind_is_built_for_once_and_finds_its_plan(self):
        machines = temper.ray.fingerprints()
        self.assertEqual((len(machines), len(set(machines.values()))), (3, 2))
        plans = temper.ray.build(DIGITS, shapes=([1, 1, 8, 8], [16, 1, 8, 8], [16, 1, 8, 8]), quick=True)
        self.assertEqual(set(plans), set(machines.values()))
        times = json.loads(plans.timings)["entries"]
        for machine in plans:
            self.assertTrue(any(key.startswith(machine) for key in times), "the timing caches are joined")
        # By name each kind gets its own; all rows come back, whoever answers.
        wanted = temper.load(plans[temper.ray.fingerprints(resources={"new": 0.01}).popitem()[1]]).run(self.pictures[:16])["logits"]
        dataset = ray.data.from_numpy(np.array_split(self.pictures, 6)).rename_columns({"data": "image"})
        rows = dataset.map_batches(temper.ray.Predictor, fn_constructor_args=[plans], batch_size=16, compute=ray.data.ActorPoolStrategy(size=3), num_cpus=1).take_all()
        self.assertEqual(len(rows), 200)
        got = np.array([row["logits"] for row in rows])
        for row in wanted:
            self.assertEqual((np.abs(got - row).max(1) < 1e-3).sum(), 1)
        # A folder of them does as well, as Triton's backend has it.
        folder = self.work / "plans"
        folder.mkdir()
        for number, plan in enumerate(plans.values()):
            (folder / f"{number}.plan").write_bytes(plan)
        for kind in ("old", "new"):
            evaluated = temper.ray.evaluate(str(folder), self.arrays, batch=16, parts=2, resources={kind: 0.01})
            self.assertEqual(evaluated.samples, 200)
        # Nothing is built again for what is there; a build starts from the times that are known.
        again = temper.ray.build(DIGITS, shapes=(16, 1, 8, 8), plans=plans)
        self.assertEqual((dict(again), again.timings), (dict(plans), plans.timings))

    def test_a_kind_that_joins_late_gets_its_plan(self):
        plans = temper.ray.build(DIGITS, shapes=(16, 1, 8, 8), quick=True, resources={"new": 0.01})
        self.assertEqual(len(plans), 1)
        more = temper.ray.build(DIGITS, shapes=(16, 1, 8, 8), quick=True, plans=plans)
        self.assertEqual(len(more), 2)
        for machine, plan in plans.items():
            self.assertEqual(more[machine], plan)

    def test_a_plan_of_another_machine_is_one_clear_error(self):
        plans = temper.ray.build(DIGITS, shapes=(16, 1, 8, 8), quick=True, resources={"new": 0.01})
        self.assertRefused("unsupported", "no plan for this machine|temper.ray.build", temper.ray.evaluate, plans, self.arrays, resources={"old": 0.01}, parts=2)
        plan = next(iter(plans.values()))
        self.assertRefused("unsupported", "on node", temper.ray.evaluate, plan, self.arrays, resources={"old": 0.01}, parts=2)
        dataset = ray.data.from_numpy(np.array_split(self.pictures, 6)).rename_columns({"data": "image"})
        with self.assertRaises(Exception) as caught:
            dataset.map_batches(temper.ray.Predictor, fn_constructor_args=[plans], batch_size=16, compute=ray.data.ActorPoolStrategy(size=1), num_cpus=1,
                                resources={"old": 0.01}).take_all()  # fmt: skip
        self.assertIn("there is no plan for this machine", str(caught.exception))

    def test_a_build_whose_worker_is_killed_is_done_again(self):
        self.fault("kill-before-build")
        plans = temper.ray.build(DIGITS, shapes=(16, 1, 8, 8), quick=True, resources={"new": 0.01})
        self.assertEqual(len(plans), 1)
        self.assertTrue((self.faults / "killed-before-build").exists())


if __name__ == "__main__":
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{options.k}*"]
    outcome = unittest.TextTestRunner(verbosity=2).run(loader.loadTestsFromModule(sys.modules["__main__"]))
    left = processes()
    print(f"processes left: {left}")
    sys.exit(0 if outcome.wasSuccessful() and not left else 1)
