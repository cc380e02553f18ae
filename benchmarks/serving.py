# SPDX-License-Identifier: Apache-2.0
"""Plans in Triton: what the backend costs beside the run, rates at a bound of the latency beside the limit of other engines' backends,
starts, and what many requests leave behind (benchmarks/README.md)."""
import argparse
import json
import os
import pathlib
import queue
import random
import re
import socket
import statistics
import sys
import tempfile
import threading
import time
import types

import numpy as np
import temper

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests/triton")]
from real import Server, folder
from temper.versus.load import LoadMeter
from temper.versus.turns import Child, Failure, medians, rounds_of, run_as_program, run_program, save

PARTS = ["own", "digits", "start", "curl", "rates", "mixed", "loads", "many", "pictures"]
DIGITS = ROOT / "models/digits_cnn.onnx"
BOUND_MS = {"fp32": 400, "int8": 150}
DIGITS_BOUND_MS, DIGITS_CLIENTS = 5, (1, 8, 16, 32)


def program(args, *words):
    return run_program([args.temper, *map(str, words)])[0]


def add(args, repository, name, plan, *more):
    program(args, "repository", "add", repository, name, plan, *more)


def digits_plan(args, work, batches):
    plan = work / f"digits-{batches}.plan"
    program(args, "build", DIGITS, "-o", plan, "--shapes", f"image=1x1x8x8:1x1x8x8:{batches}x1x8x8", "--threads", 1, "--quiet")
    return plan


# ---- clients ------------------------------------------------------------------------------------------------------


def request_of(model, name, array, output):
    """The bytes of one HTTP request with an array in binary, and of the answer in binary."""
    head = json.dumps({"inputs": [{"name": name, "shape": list(array.shape), "datatype": "FP32", "parameters": {"binary_data_size": array.nbytes}}],
                       "outputs": [{"name": output, "parameters": {"binary_data": True}}]}).encode()
    body = head + array.tobytes()
    return (f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: {len(head)}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body


LENGTH = re.compile(rb"Content-Length: (\d+)", re.I)


def ask(connection, request):
    """Sends a request as it is, and reads the whole answer: a client that costs little beside what is measured."""
    connection.sendall(request)
    got = b""
    while (at := got.find(b"\r\n\r\n")) < 0:
        got += connection.recv(65536)
    if not got.startswith(b"HTTP/1.1 200"):
        raise Failure(got[:500].decode(errors="replace"))
    whole = at + 4 + int(LENGTH.search(got)[1])
    while len(got) < whole:
        got += connection.recv(65536)
    return got


def closed_loop(args, port, request, clients, seconds, count=10**9):
    """Clients that each send the next request when the answer to the last is there (http_load.cc)."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(request)
        file.flush()
        done = json.loads(run_program([args.client, str(port), file.name, str(clients), str(seconds), str(count)])[0])
    return {**done, "per_s": done["requests"] / done["seconds"]}


def own_of(server, model, work):
    """What requests cost in the backend beside their runs, by the server's statistics, while `work` is done; in microseconds."""
    def read():
        one = server.statistics(model)["inference_stats"]
        return [one[key]["ns"] for key in ("compute_input", "compute_output", "compute_infer", "queue")] + [one["success"]["count"]]
    before = read(), server.metric("temper_send_us_total", model=model)
    client = work()
    inputs, outputs, run, waiting, count = (now - then for now, then in zip(read(), before[0]))
    sending = server.metric("temper_send_us_total", model=model) - before[1]
    return {**client, "before_run_us": inputs / count / 1e3, "behind_run_us": outputs / count / 1e3, "own_us": (inputs + outputs) / count / 1e3,
            "send_us": sending / count, "run_us": run / count / 1e3, "queue_us": waiting / count / 1e3}


# ---- parts --------------------------------------------------------------------------------------------------------


def part_own(args, work):
    """The backend's own time a request: one sample at a time, by 1 and by 8 clients; no requests are joined."""
    add(args, work / "repository", "digits", digits_plan(args, work, 1), "--instances", 1)
    request = request_of("digits", "image", np.random.default_rng(1).random((1, 1, 8, 8), dtype=np.float32), "logits")
    with Server(args.build, args.triton, work / "repository") as server:
        closed_loop(args, server.port, request, 1, 1)
        return {f"clients_{clients}": own_of(server, "digits", lambda clients=clients: closed_loop(args, server.port, request, clients, args.seconds)) for clients in (1, 8)}


PYTHON_MODEL = """import sys
sys.path.append({packages!r})
import numpy, onnxruntime
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession({model!r}, options, providers=["CPUExecutionProvider"])
    def execute(self, requests):
        images = [pb_utils.get_input_tensor_by_name(r, "image").as_numpy() for r in requests]
        logits = self.session.run(["logits"], {{"image": numpy.concatenate(images)}})[0]
        out, at = [], 0
        for image in images:
            out.append(pb_utils.InferenceResponse([pb_utils.Tensor("logits", logits[at:at + len(image)])]))
            at += len(image)
        return out
"""


def part_digits(args, work):
    """digits_cnn through Temper's backend beside the Python backend with ONNX Runtime, both with one thread, in one server in turns."""
    repository = work / "repository"
    add(args, repository, "digits", digits_plan(args, work, 32), "--instances", 1)
    (repository / "peer/1").mkdir(parents=True)
    (repository / "peer/config.pbtxt").write_text(
        'backend: "python" max_batch_size: 32 dynamic_batching { }\ninput [{name: "image" data_type: TYPE_FP32 dims: [1,8,8]}] output [{name: "logits" data_type: TYPE_FP32 dims: [10]}]\n')
    packages = next((pathlib.Path(sys.prefix) / "lib").glob("python3*/site-packages"))
    (repository / "peer/1/model.py").write_text(PYTHON_MODEL.format(packages=str(packages), model=str(DIGITS)))
    image = np.random.default_rng(1).random((1, 1, 8, 8), dtype=np.float32)
    turns = []
    with Server(args.build, args.triton, repository) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as connection:  # a fast wrong answer is no result
            answers = [np.frombuffer(ask(connection, request_of(model, "image", image, "logits"))[-40:], np.float32) for model in ("digits", "peer")]
        if np.abs(answers[0] - answers[1]).max() > 1e-3 * np.abs(answers[1]).max():
            raise Failure(f"the answers differ: {answers}")
        for turn in range(args.rounds):
            got = {}
            for clients in DIGITS_CLIENTS:
                for model in ("digits", "peer") if turn % 2 == 0 else ("peer", "digits"):
                    got[clients, model] = closed_loop(args, server.port, request_of(model, "image", image, "logits"), clients, args.seconds / 4)
            turns.append(got)

    def best(got, model):  # within the bound
        return max(got[clients, model]["per_s"] for clients in DIGITS_CLIENTS if got[clients, model]["p99_us"] <= 1e3 * DIGITS_BOUND_MS)

    rows = {f"clients_{clients}": {"temper": [got[clients, "digits"] for got in turns], "peer": [got[clients, "peer"] for got in turns],
                                   "ratio": statistics.median(got[clients, "digits"]["per_s"] / got[clients, "peer"]["per_s"] for got in turns)} for clients in DIGITS_CLIENTS}
    return {"bound_ms": DIGITS_BOUND_MS, "temper_per_s": statistics.median(best(got, "digits") for got in turns), "peer_per_s": statistics.median(best(got, "peer") for got in turns),
            "ratio": statistics.median(best(got, "digits") / best(got, "peer") for got in turns), **rows}


def part_start(args, work):
    """From the start of temper serve to ready, with ResNet-50."""
    model = work / "resnet50.onnx"
    program(args, "zoo", "resnet50", "-o", model, "--quiet")
    program(args, "build", model, "-o", work / "resnet50.plan", "--threads", 2, "--no-measure", "--quiet")
    add(args, work / "repository", "resnet50", work / "resnet50.plan")
    ready = []
    for _ in range(args.rounds):
        with Server(args.build, args.triton, work / "repository") as server:
            ready.append(server.ready_s)
    return {"ready_s": statistics.median(ready), "each_s": ready}


def part_curl(args, work):
    """From the ONNX file to an answer by curl: build, which measures, and serve."""
    seconds = []
    for i in range(args.rounds):
        repository = work / f"repository-{i}"
        begun = time.monotonic()
        plan = digits_plan(args, work, 8)
        add(args, repository, "digits", plan)
        with Server(args.build, args.triton, repository) as server:
            body = json.dumps({"inputs": [{"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0.5] * 64}]})
            said = run_program(["curl", "-sf", server.url("/v2/models/digits/infer"), "-d", body])[0]
            seconds.append(time.monotonic() - begun)
        if len(json.loads(said)["outputs"][0]["data"]) != 10:
            raise Failure(said)
        plan.unlink()
    return {"seconds": statistics.median(seconds), "each_s": seconds}


# ---- rates at a bound of the latency ------------------------------------------------------------------------------


class Region:
    """System shared memory with one array in it, which the server reads or writes where it lies."""

    def __init__(self, server, array, name="input"):
        self.path = pathlib.Path(f"/dev/shm/temper_bench_{os.getpid()}_{name}")
        self.path.touch(0o600)
        self.path.write_bytes(array.tobytes())
        code, text = server.post(f"/v2/systemsharedmemory/region/{name}/register", {"key": "/" + self.path.name, "offset": 0, "byte_size": array.nbytes})
        if code != 200:
            raise Failure(text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.path.unlink()


def request_in_memory(model, name, array, output):
    body = json.dumps({"inputs": [{"name": name, "shape": list(array.shape), "datatype": "FP32", "parameters": {"shared_memory_region": "input", "shared_memory_byte_size": array.nbytes}}],
                       "outputs": [{"name": output, "parameters": {"binary_data": True}}]}).encode()
    return f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def arrivals(rate, seconds, seed):
    draw, at, times = random.Random(seed), 0.0, []
    while (at := at + draw.expovariate(rate)) < seconds:
        times.append(at)
    return times


def open_loop(port, request, rate, seconds, seed):
    """Requests that come when they come, whatever the server does: latencies from the time at which each was due, in seconds."""
    due, latencies, failed = queue.SimpleQueue(), [], []
    begun = time.monotonic() + 0.2
    for at in arrivals(rate, seconds, seed):
        due.put(begun + at)
    workers = 48

    def work():
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while True:
                    try:
                        at = due.get_nowait()
                    except queue.Empty:
                        return
                    time.sleep(max(0.0, at - time.monotonic()))
                    ask(connection, request)
                    latencies.append(time.monotonic() - at)
        except (OSError, Failure) as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise Failure(str(failed[0]))
    return sorted(latencies)


def p99(sorted_times):
    return sorted_times[min(len(sorted_times) - 1, len(sorted_times) * 99 // 100)]


def simulated_p99(services, beside, rate, seconds, seed):
    """One instance that takes the same requests in their order: each waits for those before it. `services`: samples of what one takes."""
    draw = random.Random(seed)
    free, latencies = 0.0, []
    for at in arrivals(rate, seconds, seed):
        free = max(free, at) + draw.choice(services)
        latencies.append(free - at + beside)
    return p99(sorted(latencies))


def largest(service, steps, fits):
    """The largest rate that fits, of one every two services to what never waits; `fits` gets a rate and the number of the try."""
    low, high = 0.5 / service, 1.02 / service
    for step in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle, step) else (low, middle)
    return low


def part_rates(args, work):
    """ResNet-50: the largest rate whose 99th percentile is within the bound, through Triton, beside the limit of a backend with another
    engine in it: what Triton and Temper's backend take beside the run, and that engine's run in a process of its own, timed in turns."""
    return {precision: rates_of(args, work / precision, precision) for precision in args.precisions}


def rates_of(args, work, precision):
    import cpu_peers

    work.mkdir()
    bound = BOUND_MS[precision] / 1e3
    model = str(work / "model.onnx")
    program(args, "zoo", "resnet50", "-o", model, "--quiet")
    name, shape = cpu_peers.input_of(model, 1)
    values = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    np.save(work / "input.npy", values)
    np.savez(work / "inputs.npz", **{name: values})
    how = types.SimpleNamespace(temper=args.temper, threads=2, precision=precision)
    if precision == "int8":
        cpu_peers.quantize(how, model, str(work), name, shape)
    plan = work / "model.plan"
    program(args, "build", model, "-o", plan, "--shapes", cpu_peers.shapes_flag(name, shape), "--threads", 2, "--precision", precision, "--quiet", *cpu_peers.calibration_of(how, str(work)))
    add(args, work / "repository", "resnet50", plan, "--instances", 1)
    output = temper.load(str(plan)).outputs[0].name
    children = [Child("temper", [args.temper, "bench", str(plan), "--pipe", "--threads", "2"])]
    try:
        for engine in args.peers:
            file = str(work / "model_qdq.onnx") if precision == "int8" else model
            children.append(Child(engine, [args.python, cpu_peers.ENGINE, engine, file, str(work / "inputs.npz"), "--threads", "2", "--precision", precision]))
        for child in children:
            child.calibrate(1.0, 5)
        with Server(args.build, args.triton, work / "repository") as server, Region(server, values):
            request = request_in_memory("resnet50", name, values, output)
            closed_loop(args, server.port, request, 1, 2)
            samples = rounds_of(children, args.rounds)
            alone = own_of(server, "resnet50", lambda: closed_loop(args, server.port, request, 1, args.seconds))
            samples = {engine: turns + more for (engine, turns), more in zip(samples.items(), rounds_of(children, args.rounds).values())}
            service = (alone["run_us"] + alone["own_us"]) / 1e6
            beside = max(0.0, alone["p50_us"] / 1e6 - service)  # HTTP, the client
            tried = []

            def fits(rate, seed):
                times = open_loop(server.port, request, rate, args.rate_seconds, seed)
                tried.append({"rate": rate, "requests": len(times), "p50_ms": 1e3 * times[len(times) // 2], "p99_ms": 1e3 * p99(times)})
                return p99(times) <= bound

            meter = LoadMeter([*children, server])
            best = largest(service, args.steps, fits)
            others = meter.cores()
    finally:
        for child in children:
            child.close()
    def simulated(engine, more, wait):
        services = [ms / 1e3 + more for turn in samples[engine] for ms in turn]
        return largest(statistics.mean(services), args.steps, lambda rate, seed: simulated_p99(services, wait, rate, args.rate_seconds, seed) <= bound)

    quiet = medians(samples)
    result = {"bound_ms": 1e3 * bound, "rate_per_s": best, "tried": tried, "alone": alone, "load_by_others": others, "engines": {}, "over": {}}
    for engine in samples:
        result["engines"][engine] = {"median_ms": statistics.median(quiet[engine]), "in_process_per_s": simulated(engine, 0, 0), "limit_per_s": simulated(engine, alone["own_us"] / 1e6, beside),
                                     "samples_ms": samples[engine]}
    own = result["engines"]["temper"]
    for engine in args.peers:
        peer = result["engines"][engine]
        rate, in_process = best / peer["limit_per_s"], own["in_process_per_s"] / peer["in_process_per_s"]
        result["over"][engine] = {"rate": rate, "in_process": in_process, "share": rate / in_process,
                                  "median_of_runs": statistics.median(p / o for p, o in zip(quiet[engine], quiet["temper"]))}
    return result


# ---- many requests ------------------------------------------------------------------------------------------------


def part_mixed(args, work):
    """16 clients of five kinds, each answer beside a run in this process."""
    from mixed import mixed

    plan = digits_plan(args, work, 32)
    add(args, work / "repository", "digits", plan, "--instances", 2, "--max-delay", 300)
    with Server(args.build, args.triton, work / "repository") as server:
        done = mixed(server, temper.load(str(plan)), args.mixed)
        done["failed_in_server"] = server.statistics("digits")["inference_stats"]["fail"]["count"]
    return {**done, "wrong": len(done["wrong"]), "first_wrong": [str(one) for one in done["wrong"][:3]]}


def part_loads(args, work):
    """Loads and unloads, with a request each: the server's memory before and after."""
    add(args, work / "repository", "digits", digits_plan(args, work, 32))
    data = {"inputs": [{"name": "image", "shape": [2, 1, 8, 8], "datatype": "FP32", "data": [0.5] * 128}]}
    with Server(args.build, args.triton, work / "repository", "--model-control-mode=explicit") as server:
        for i in range(args.loads + 10):
            if i == 10:
                before = server.memory_mib()
            for code, text in (server.load("digits"), server.post("/v2/models/digits/infer", data), server.unload("digits")):
                if code != 200:
                    raise Failure(text)
            while server.answers("/v2/models/digits/ready"):
                time.sleep(0.01)
        time.sleep(1)
        return {"loads": args.loads, "before_mib": before, "grown_mib": server.memory_mib() - before}


def part_many(args, work):
    """Requests of one to 32 rows by 4 clients: the server's memory after the first tenth and at the end."""
    add(args, work / "repository", "digits", digits_plan(args, work, 32), "--instances", 2)
    memory, done = [], 0
    with Server(args.build, args.triton, work / "repository") as server:
        for turn in range(10):
            rows = 1 if turn % 2 == 0 else 1 + turn
            request = request_of("digits", "image", np.full((rows, 1, 8, 8), 0.5, np.float32), "logits")
            done += closed_loop(args, server.port, request, 4, 1e6, args.many // 10)["requests"]
            memory.append(server.memory_mib())
    return {"requests": done, "memory_mib": memory, "grown_mib": memory[-1] - memory[0]}


# ---- pictures on a GPU --------------------------------------------------------------------------------------------


def part_pictures(args, work):
    """ResNet-50 in INT8 on u8 pictures: requests of a whole batch, inputs and outputs in system shared memory, beside the same plan in
    process with copies from pinned memory and back (`temper bench --transfers`), in turns."""
    model, plan, batch = work / "model.onnx", work / "model.plan", args.batch
    program(args, "zoo", "resnet50", "-o", model, "--quiet")
    pictures = np.random.default_rng(1).integers(0, 256, (batch, 224, 224, 3), dtype=np.uint8)
    np.save(work / "pictures.npy", pictures)
    program(args, "calibrate", model, "--placeholder-data", "--samples", 8, "-o", work / "ranges.json", "--quiet")
    program(args, "build", model, "-o", plan, "--device", args.device, "--precision", "int8", "--calibration", work / "ranges.json", "--input-pictures", "--preprocess", "imagenet",
            "--shapes", f"{batch}x3x224x224", "--quiet")
    program(args, "run", plan, "--input", work / "pictures.npy", "--output-dir", work / "answers", "--quiet")
    [answers] = (work / "answers").glob("*.npy")
    wanted = np.load(answers)
    port = {"inputs": [{"name": json.loads(program(args, "inspect", plan, "--json=-"))["inputs"][0]["name"], "shape": list(pictures.shape), "datatype": "UINT8",
                        "parameters": {"shared_memory_region": "input", "shared_memory_byte_size": pictures.nbytes}}],
            "outputs": [{"name": answers.stem, "parameters": {"shared_memory_region": "output", "shared_memory_byte_size": wanted.nbytes}}]}
    body = json.dumps(port).encode()
    request = f"POST /v2/models/resnet50/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    transfers = ["--transfers"] if args.device.startswith("cuda") else []

    def in_process():
        said = json.loads(program(args, "bench", plan, "--batch", batch, *transfers, "--streams", 3, "--duration", f"{args.seconds}s", "--json", "-", "--quiet"))
        return said["runs"][0]["throughput_per_s"]

    result = {"batch": batch, "device": args.device}
    for instances in args.instances:
        repository = work / f"repository-{instances}"
        add(args, repository, "resnet50", plan, "--instances", instances)
        with Server(args.build, args.triton, repository) as server, Region(server, pictures), Region(server, np.zeros_like(wanted), "output") as output:
            closed_loop(args, server.port, request, instances, 1)
            rounds = []
            for _ in range(args.rounds):
                alone = in_process()
                served = own_of(server, "resnet50", lambda: closed_loop(args, server.port, request, 2 * instances, args.seconds))
                rounds.append({"in_process_per_s": alone, "served_per_s": batch * served["per_s"], "served": served})
            got = np.frombuffer(output.path.read_bytes(), wanted.dtype).reshape(wanted.shape)
        result[f"instances_{instances}"] = {"rounds": rounds, "share": statistics.median(one["served_per_s"] / one["in_process_per_s"] for one in rounds), "equal": bool((got == wanted).all())}
    return result


def judged(result):
    """(what, measured, what it must be, the goal, met) for every figure that was measured; the least or the most of several."""
    parts = result["parts"]

    def at_most(what, values, must, goal):
        if values := list(values):
            yield what, max(values), f"<= {must}", f"<= {goal}", max(values) <= must

    def at_least(what, values, must, goal):
        if values := list(values):
            yield what, min(values), f">= {must}", f">= {goal}", min(values) >= must

    yield from at_most("own time a request, µs", (one["own_us"] for one in parts.get("own", {}).values()), 20, 10)
    yield from at_least("digits over the Python backend", [parts["digits"]["ratio"]] if "digits" in parts else [], 2.0, 2.5)
    yield from at_most("start to ready, s", [parts["start"]["ready_s"]] if "start" in parts else [], 0.5, 0.2)
    yield from at_most("ONNX to curl, s", [parts["curl"]["seconds"]] if "curl" in parts else [], 10, 2)
    yield from at_least("share of the in-process ratio", (over["share"] for one in parts.get("rates", {}).values() for over in one["over"].values()), 0.97, 0.99)
    yield from at_most("wrong, failed or lost of mixed requests", (one["wrong"] + one["failed_in_server"] + one["requests"] - one["answered"] for one in [parts.get("mixed")] if one), 0, 0)
    shares = [one for name, one in parts.get("pictures", {}).items() if name.startswith("instances_")]
    yield from at_least("served share of u8 pictures a second", [max(one["share"] for one in shares)] if shares else [], 0.6, 0.85)
    yield from at_most("answers that differ from those in process", [sum(not one["equal"] for one in shares)] if shares else [], 0, 0)
    yield from at_most("MiB grown", (parts[part]["grown_mib"] for part in ("loads", "many") if part in parts), 2, 2)


def lines_of(result):
    """The table for people."""
    parts = result["parts"]
    for key, one in parts.get("own", {}).items():
        yield f"own time a request, batch 1, {key.split('_')[1]} clients", f"{one['own_us']:.1f} µs ({one['before_run_us']:.1f} before the run, {one['behind_run_us']:.1f} behind it; run {one['run_us']:.1f}; the server takes an answer in {one['send_us']:.1f})"
    if "digits" in parts:
        one = parts["digits"]
        yield (f"digits_cnn over the Python backend with ONNX Runtime, largest rate with p99 within {one['bound_ms']} ms",
               f"{one['ratio']:.2f}x ({one['temper_per_s']:.0f} and {one['peer_per_s']:.0f} requests/s)")
        for clients in DIGITS_CLIENTS:
            row = one[f"clients_{clients}"]
            both = [[statistics.median(turn[key] for turn in row[side]) for key in ("per_s", "p50_us", "p99_us")] for side in ("temper", "peer")]
            yield (f"the same, {clients} clients", f"{row['ratio']:.2f}x ({both[0][0]:.0f} and {both[1][0]:.0f} requests/s; median {both[0][1]:.0f} and {both[1][1]:.0f} µs, "
                   f"p99 {both[0][2]:.0f} and {both[1][2]:.0f})")
    if "start" in parts:
        yield "ResNet-50, start of temper serve to ready", f"{parts['start']['ready_s']:.2f} s"
    if "curl" in parts:
        yield "digits, ONNX file to an answer by curl", f"{parts['curl']['seconds']:.2f} s"
    for precision, one in parts.get("rates", {}).items():
        yield (f"ResNet-50 {precision.upper()}, largest rate with p99 within {one['bound_ms']:.0f} ms",
               f"{one['rate_per_s']:.1f} requests/s (in process, simulated: {one['engines']['temper']['in_process_per_s']:.1f}; others used {one['load_by_others']:.2f} cores)")
        for peer, over in one["over"].items():
            yield (f"ResNet-50 {precision.upper()} over the limit of {peer}",
                   f"{over['rate']:.2f}x of {one['engines'][peer]['limit_per_s']:.1f} requests/s; in process {over['in_process']:.2f}x, of which {100 * over['share']:.1f} %; medians of runs {over['median_of_runs']:.2f}x")
    if "mixed" in parts:
        yield f"16 mixed clients, {parts['mixed']['requests']} requests", f"{parts['mixed']['answered']} answered, {parts['mixed']['wrong']} wrong, {parts['mixed']['failed_in_server']} failed"
    if "loads" in parts:
        yield f"{parts['loads']['loads']} loads and unloads", f"{parts['loads']['grown_mib']:+.2f} MiB"
    if "pictures" in parts:
        one = parts["pictures"]
        for name in (key for key in one if key.startswith("instances_")):
            here = [statistics.median(turn[key] for turn in one[name]["rounds"]) for key in ("served_per_s", "in_process_per_s")]
            yield (f"ResNet-50 INT8 on {one['device']}, u8 pictures in shared memory, requests of {one['batch']}, {name.split('_')[1]} instances",
                   f"{here[0]:.0f} pictures/s, in process {here[1]:.0f}: {100 * one[name]['share']:.1f} %; answers {'equal' if one[name]['equal'] else 'DIFFER'}")
    if "many" in parts:
        yield f"{parts['many']['requests']} requests", f"{parts['many']['grown_mib']:+.2f} MiB since the first tenth"


def main():
    parser = argparse.ArgumentParser(prog="./dev bench serving", description=__doc__)
    parser.add_argument("build", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("triton", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--python", required=True, help=argparse.SUPPRESS)  # with the peers
    parser.add_argument("--parts", default="own,digits,start,curl,rates,mixed,loads", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--precisions", default="fp32,int8", help="of the part rates")
    parser.add_argument("--peers", default="onnxruntime,openvino", help="of the part rates")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of a measurement")
    parser.add_argument("--rate-seconds", type=float, default=60, help="of a rate that is tried")
    parser.add_argument("--steps", type=int, default=6, help="rates that are tried")
    parser.add_argument("--mixed", type=int, default=20000, help="requests of the part mixed")
    parser.add_argument("--loads", type=int, default=50)
    parser.add_argument("--device", default="cuda:0", help="of the part pictures")
    parser.add_argument("--batch", type=int, default=128, help="pictures of a request of the part pictures")
    parser.add_argument("--instances", default="2,4", help="of the part pictures")
    parser.add_argument("--many", type=int, default=1000000, help="requests of the part many")
    parser.add_argument("--json", help="file for all that was measured, which the parts of another call extend")
    args = parser.parse_args()
    args.parts, args.precisions, args.peers = (text.split(",") for text in (args.parts, args.precisions, args.peers))
    args.instances = [int(text) for text in args.instances.split(",")]
    for part in args.parts:
        if part not in PARTS:
            raise Failure(f"there is no part '{part}'; there are {', '.join(PARTS)}")
    args.build, args.triton = args.build.resolve(), args.triton.resolve()
    args.temper = str(args.build / "temper")
    result = {"schema": "temper.bench_serving/1", "parts": {}}
    if args.json and os.path.exists(args.json):
        result = json.loads(pathlib.Path(args.json).read_text())
    result["version"] = program(args, "--version").strip()
    result["cpu"] = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())[1]
    result["cores"] = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as tools:
        args.client = f"{tools}/http_load"
        run_program(["c++", "-O2", "-std=c++17", str(HERE / "http_load.cc"), "-o", args.client])
        measure(args, result)
    for what, value in lines_of(result):
        print(f"| {what} | {value} |")
    missed = 0
    for what, measured, must, goal, met in judged(result):
        print(f"{what}: {measured:.3g}, must be {must} (goal {goal}): {'met' if met else 'NOT MET'}")
        missed += not met
    return 1 if missed else 0


def measure(args, result):
    for part in args.parts:
        with folder("temper-bench-serving-") as work:
            got = globals()["part_" + part](args, work)
        if part == "rates":
            got = {**result["parts"].get("rates", {}), **got}
        result["parts"][part] = got
        if args.json:
            save(args.json, result)


if __name__ == "__main__":
    run_as_program("serving", main)
