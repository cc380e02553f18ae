#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The backend in Triton's real server: every way to ask, beside runs in this process; faults; memory.

usage: real_server.py BUILD TRITON [-k NAME] [--requests N] [--loads N]     ./dev test-triton gives the first two
"""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http

import temper
from mixed import mixed
from real import Server, folder

arguments = argparse.ArgumentParser()
arguments.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
arguments.add_argument("triton", type=lambda path: pathlib.Path(path).resolve())
arguments.add_argument("--requests", type=int, default=4000)
arguments.add_argument("--loads", type=int, default=20)
arguments.add_argument("-k", default="")
options = arguments.parse_args()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = str(options.build / "temper")


def program(*words, **more):
    return subprocess.run([PROGRAM, *map(str, words)], check=True, capture_output=True, text=True, **more).stdout


class RealServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder_of_class = folder()
        cls.work = cls.folder_of_class.__enter__()
        cls.plan = cls.work / "digits.plan"
        program("build", ROOT / "models/digits_cnn.onnx", "-o", cls.plan, "--shapes", "image=1x1x8x8:1x1x8x8:32x1x8x8", "--threads", 1, "--no-measure")

    @classmethod
    def tearDownClass(cls):
        cls.folder_of_class.__exit__(None, None, None)

    def setUp(self):
        self.repository = self.work / self.id().rsplit(".", 1)[1] / "repository"

    def add(self, name="digits", plan=None, *more):
        return program("repository", "add", self.repository, name, plan or self.plan, *more).strip()

    def server(self, *more, **keywords):
        server = Server(options.build, options.triton, self.repository, *more, **keywords)
        self.addCleanup(server.stop)
        return server

    def test_sixteen_mixed_clients_get_the_bits_of_a_run_in_this_process(self):
        self.add("digits", None, "--instances", 2, "--max-delay", 300)
        server = self.server()
        done = mixed(server, temper.load(str(self.plan)), options.requests)
        print(f"\n  {done['answered']} requests of {options.requests} answered in {done['seconds']:.0f} s, {len(done['wrong'])} wrong; buckets {done['buckets']}")
        self.assertEqual(done["wrong"][:3], [])
        self.assertEqual(done["answered"], options.requests)
        self.assertEqual(server.statistics("digits")["inference_stats"]["fail"]["count"], 0)
        self.assertGreater(server.metric("temper_rows_total", model="digits"), options.requests)

    def test_memory_is_flat_after_unloading(self):
        self.add()
        server = self.server("--model-control-mode=explicit")
        data = {"inputs": [{"name": "image", "shape": [2, 1, 8, 8], "datatype": "FP32", "data": [0.5] * 128}]}
        for i in range(options.loads + 5):
            if i == 5:  # what the server itself takes by then
                before = server.memory_mib()
            self.assertEqual(server.load("digits"), (200, ""))
            self.assertEqual(server.post("/v2/models/digits/infer", data)[0], 200)
            self.assertEqual(server.unload("digits")[0], 200)
            while json.loads(server.post("/v2/repository/index")[1])[0].get("state") == "UNLOADING" or server.answers("/v2/models/digits/ready"):
                time.sleep(0.01)
        time.sleep(0.5)
        grown = server.memory_mib() - before
        print(f"\n  {options.loads} loads and unloads: {before:.1f} MiB, then {grown:+.2f}")
        self.assertLess(grown, 2)

    def test_what_cannot_be_loaded_says_what_to_do_and_the_server_stays(self):
        self.add("good")
        server = self.server("--model-control-mode=explicit", "--load-model=good")
        self.add("damaged")
        plan = self.repository / "damaged/1/model.temper"
        content = bytearray(plan.read_bytes())
        content[len(content) // 2] ^= 1
        plan.unlink()
        plan.write_bytes(content)
        self.add("contradiction")
        with open(self.repository / "contradiction/config.pbtxt", "a") as config:
            config.write("max_batch_size: 64\n")
        stale = self.work / "stale.plan"
        program("build", ROOT / "models/digits_cnn.onnx", "-o", stale, "--no-measure", "--isa", "base")
        self.add("another", stale)
        self.add("empty")
        (self.repository / "empty/1/model.temper").unlink()
        for name, part in [("damaged", "damaged"), ("contradiction", "Write max_batch_size: 32"), ("another", "temper build"), ("empty", "temper repository add")]:
            code, text = server.load(name)
            self.assertNotEqual(code, 200)
            self.assertIn(part, text)
        self.assertTrue(server.answers("/v2/models/good/ready"))
        # It is repaired while the server runs.
        plan.write_bytes(self.plan.read_bytes())
        self.assertEqual(server.load("damaged"), (200, ""))

    def test_a_plan_that_is_replaced_while_it_loads_or_runs_changes_no_answer(self):
        self.add()
        server = self.server("--model-control-mode=explicit", "--load-model=digits")
        data = {"inputs": [{"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0.5] * 64}]}
        want = json.loads(server.post("/v2/models/digits/infer", data)[1])["outputs"]
        path = self.repository / "digits/1/model.temper"
        content = path.read_bytes()
        path.unlink()
        stop = threading.Event()

        def disturb():
            while not stop.is_set():
                for part in (content, content[:len(content) // 2]):
                    path.with_suffix(".new").write_bytes(part)
                    path.with_suffix(".new").rename(path)

        thread = threading.Thread(target=disturb)
        thread.start()
        loaded = 0
        try:
            for _ in range(20):
                self.assertEqual(json.loads(server.post("/v2/models/digits/infer", data)[1])["outputs"], want)
                loaded += server.load("digits")[0] == 200
        finally:
            stop.set()
            thread.join()
        path.write_bytes(content)
        self.assertEqual(server.load("digits"), (200, ""))
        self.assertEqual(json.loads(server.post("/v2/models/digits/infer", data)[1])["outputs"], want)

    def test_clients_that_go_are_survived_and_a_sigterm_under_load_ends_the_server(self):
        self.add("digits", None, "--max-delay", 2000)
        server = self.server()
        import socket
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", server.port)) as gone:
                body = json.dumps({"inputs": [{"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0.5] * 64}]})
                gone.sendall(f"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()[:random.randint(40, 400)])
        self.assertTrue(server.answers("/v2/models/digits/ready"))
        ends, wrong = [], []
        want = temper.load(str(self.plan)).run(np.full((4, 1, 8, 8), 0.5, np.float32))["logits"]

        def ask():
            client = http.InferenceServerClient(f"127.0.0.1:{server.port}")
            given = http.InferInput("image", [4, 1, 8, 8], "FP32")
            given.set_data_from_numpy(np.full((4, 1, 8, 8), 0.5, np.float32))
            try:
                while True:
                    if not np.allclose(client.infer("digits", [given]).as_numpy("logits"), want, rtol=1e-5, atol=1e-5):  # buckets differ
                        wrong.append(1)
            except Exception as error:  # the end of the server
                ends.append(error)
            client.close()

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        code = server.stop()
        for thread in threads:
            thread.join()
        # Release 2.51 lets go of its HTTP front end while a request that came late still allocates its answer there, and may
        # then end by SIGSEGV (docs/serving.md); it ends in any case.
        self.assertIn(code, (0, 1, -signal.SIGSEGV))
        self.assertEqual(wrong, [])
        self.assertEqual(len(ends), 4)

    def test_cache_rate_limiter_and_several_versions_work(self):
        self.add("digits", None, "--instances", 2)
        self.add("digits")
        with open(self.repository / "digits/config.pbtxt", "a") as config:
            config.write("response_cache { enable: true }\nversion_policy { all { } }\n")
        server = self.server("--cache-config=local,size=1048576", f"--cache-directory={options.triton}/pytriton/tritonserver/caches", "--rate-limit=execution_count")
        data = {"inputs": [{"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0.5] * 64}]}
        first = [json.loads(server.post("/v2/models/digits/infer", data)[1])["outputs"] for _ in range(5)]
        self.assertEqual([first[0]] * 5, first)
        self.assertGreater(server.statistics("digits")["inference_stats"]["cache_hit"]["count"] +
                           json.loads(server.get("/v2/models/digits/stats"))["model_stats"][1]["inference_stats"]["cache_hit"]["count"], 0)
        for version in (1, 2):
            self.assertEqual(server.post(f"/v2/models/digits/versions/{version}/infer", data)[0], 200)

    def test_an_ensemble_and_a_call_from_a_python_model(self):
        self.add()
        for name, body in [("twice", "pb_utils.Tensor('y', t * 2)"), ("calls", None)]:
            (self.repository / name / "1").mkdir(parents=True)
            size = "8" if name == "twice" else None
            (self.repository / name / "config.pbtxt").write_text(
                'backend: "python" max_batch_size: 8\n' +
                ('input [{name: "x" data_type: TYPE_FP32 dims: [1,8,8]}] output [{name: "y" data_type: TYPE_FP32 dims: [1,8,8]}]' if size else
                 'input [{name: "x" data_type: TYPE_FP32 dims: [1,8,8]}] output [{name: "y" data_type: TYPE_FP32 dims: [10]}]'))
            answer = ("t = pb_utils.get_input_tensor_by_name(r, 'x').as_numpy()\n            out.append(pb_utils.InferenceResponse([pb_utils.Tensor('y', t * 2)]))" if size else
                      "t = pb_utils.get_input_tensor_by_name(r, 'x').as_numpy()\n            its = pb_utils.InferenceRequest(model_name='digits', requested_output_names=['logits'], inputs=[pb_utils.Tensor('image', t)]).exec()\n"
                      "            out.append(pb_utils.InferenceResponse([pb_utils.Tensor('y', pb_utils.get_output_tensor_by_name(its, 'logits').as_numpy())]))")
            (self.repository / name / "1/model.py").write_text(
                "import triton_python_backend_utils as pb_utils\n\nclass TritonPythonModel:\n    def execute(self, requests):\n        out = []\n"
                f"        for r in requests:\n            {answer}\n        return out\n")
        (self.repository / "both/1").mkdir(parents=True)
        (self.repository / "both/config.pbtxt").write_text(
            'platform: "ensemble" max_batch_size: 8\ninput [{name: "x" data_type: TYPE_FP32 dims: [1,8,8]}] output [{name: "y" data_type: TYPE_FP32 dims: [10]}]\n'
            'ensemble_scheduling { step [ {model_name: "twice" model_version: -1 input_map {key: "x" value: "x"} output_map {key: "y" value: "t"}},\n'
            '{model_name: "digits" model_version: -1 input_map {key: "image" value: "t"} output_map {key: "logits" value: "y"}} ] }\n')
        server = self.server()
        x = np.random.default_rng(2).random((2, 1, 8, 8), dtype=np.float32)
        engine = temper.load(str(self.plan))
        client = http.InferenceServerClient(f"127.0.0.1:{server.port}")
        given = http.InferInput("x", [2, 1, 8, 8], "FP32")
        given.set_data_from_numpy(x)
        np.testing.assert_array_equal(client.infer("both", [given]).as_numpy("y"), engine.run(x * 2)["logits"])
        np.testing.assert_array_equal(client.infer("calls", [given]).as_numpy("y"), engine.run(x)["logits"])
        client.close()

    def test_sequences_keep_their_state_in_the_server(self):
        import onnx
        from onnx import TensorProto, helper
        graph = helper.make_graph([helper.make_node("Add", ["x", "s"], ["next"]), helper.make_node("Relu", ["next"], ["y"])], "sum",
                                  [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 4]) for n in ("x", "s")],
                                  [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 4]) for n in ("y", "next")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), self.work / "sum.onnx")
        plan = self.work / "sum.plan"
        program("build", self.work / "sum.onnx", "-o", plan, "--shapes", "x=1x4:1x4:4x4", "--shapes", "s=1x4:1x4:4x4", "--no-measure")
        self.add("sum", plan)
        with open(self.repository / "sum/config.pbtxt", "a") as config:
            config.write('max_batch_size: 4\nsequence_batching { oldest { max_candidate_sequences: 4 } state [ { input_name: "s" output_name: "next" '
                         'data_type: TYPE_FP32 dims: [ 4 ] initial_state { name: "zero" data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } ] }\n')
        server = self.server()
        client = grpc.InferenceServerClient(f"127.0.0.1:{server.port + 1}")
        sums = {1: np.zeros(4, np.float32), 2: np.zeros(4, np.float32)}
        for step in range(5):
            for sequence in sums:
                x = np.full((1, 4), sequence * (step + 1), np.float32)
                given = grpc.InferInput("x", [1, 4], "FP32")
                given.set_data_from_numpy(x)
                result = client.infer("sum", [given], sequence_id=sequence, sequence_start=step == 0, sequence_end=step == 4)
                sums[sequence] += x[0]
                np.testing.assert_array_equal(result.as_numpy("y")[0], sums[sequence])
        client.close()

    def test_pictures_are_sent_as_files_and_a_damaged_one_fails_alone(self):
        plan, seeds = self.work / "photos.plan", ROOT / "tests/fuzz/seeds/picture"
        program("build", ROOT / "models/digits_cnn.onnx", "-o", plan, "--shapes", "image=1x1x8x8:1x1x8x8:4x1x8x8", "--threads", 1, "--no-measure", "--input-pictures")
        self.add("photos", plan, "--encoded-pictures")
        server = self.server()
        files = {name: (seeds / name).read_bytes() for name in ("rgb.jpg", "progressive.jpg", "rgb.png")}
        want = {}
        for name in files:
            program("run", plan, "--input", seeds / name, "--output-dir", self.work / ("answer-" + name), "--quiet")
            want[name] = np.load(next((self.work / ("answer-" + name)).glob("*.npy")))
        client = http.InferenceServerClient(f"127.0.0.1:{server.port}")
        self.addCleanup(client.close)

        def answer(pictures):
            given = http.InferInput("image", [len(pictures), 1], "BYTES")
            given.set_data_from_numpy(np.array([[one] for one in pictures], dtype=object))
            return client.infer("photos", [given]).as_numpy("logits")

        for name, content in files.items():
            np.testing.assert_array_equal(answer([content]), want[name])
        np.testing.assert_allclose(answer(list(files.values())), np.concatenate(list(want.values())), rtol=1e-5, atol=1e-5)
        with self.assertRaisesRegex(Exception, "picture 1: .*damaged"):
            answer([files["rgb.jpg"], files["rgb.jpg"][:300]])
        np.testing.assert_array_equal(answer([files["rgb.jpg"]]), want["rgb.jpg"])
        # The file alone is a request, as the document's curl sends it.
        said = subprocess.run(["curl", "-sf", server.url("/v2/models/photos/infer"), "-H", "Inference-Header-Content-Length: 0", "--data-binary", f"@{seeds}/rgb.jpg"], check=True, capture_output=True).stdout
        np.testing.assert_array_equal(np.frombuffer(said[-40:], np.float32), want["rgb.jpg"].ravel())

    def test_the_document_runs_as_it_stands(self):
        import re
        blocks = re.findall(r"^```bash\n(.*?)^```", (ROOT / "docs/serving.md").read_text(), re.S | re.M)
        self.assertEqual(len(blocks), 2)
        work = self.work / "document"
        work.mkdir()
        (work / "models").symlink_to(ROOT / "models")
        (work / "bin").mkdir()
        (work / "bin/temper").symlink_to(PROGRAM)
        path = {"PATH": f"{work}/bin:{options.triton}/bin:{os.environ['PATH']}", "XDG_CACHE_HOME": str(work / "cache")}
        build, serve = blocks[0].strip().splitlines()
        begun = time.monotonic()
        subprocess.run(["bash", "-c", build], cwd=work, check=True, capture_output=True, env=dict(os.environ, **path))
        self.repository = work / "repository"
        os.chdir(work)
        server = Server(options.build, options.triton, work / "repository", environment=path, command=serve.split())
        self.addCleanup(server.stop)
        said = subprocess.run(["bash", "-c", blocks[1].replace(":8000", f":{server.port}")], check=True, capture_output=True, text=True).stdout
        seconds = time.monotonic() - begun
        self.assertEqual(int(np.argmax(json.loads(said)["outputs"][0]["data"])), 7)
        print(f"\n  from the ONNX file to an answer by curl: {seconds:.2f} s; from the start of the server to ready: {server.ready_s:.2f} s")
        self.assertLess(seconds, 60)


if __name__ == "__main__":
    library = next((options.triton / "nvidia_pytriton.libs").glob("libtritonserver-*.so"))
    subprocess.run([sys.executable, str(pathlib.Path(__file__).parent / "symbols.py"), str(options.build / "backends/temper/libtriton_temper.so"), str(library)], check=True)
    unittest.main(argv=[sys.argv[0], "-v"] + (["-k", options.k] if options.k else []))
