# SPDX-License-Identifier: Apache-2.0
"""Clients of every kind at once, each of whose answers is held against a run in this process; for tests and benchmarks."""
import os
import queue
import random
import threading
import time

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
import tritonclient.utils.shared_memory as shm

KINDS = ["http", "grpc", "stream", "http-shm", "grpc-shm"]
MOST = 32  # rows of a request


def mixed(server, engine, requests, clients=16):
    """`requests` of digits_cnn with 1 to 32 rows each, to the server's model `digits`. What is wrong is listed: an answer whose bits are
    not those of a run of the bucket that the response names, or what a client failed with."""
    rows = np.random.default_rng(1).random((64, 1, 8, 8), dtype=np.float32)
    lock, session_lock = threading.Lock(), threading.Lock()
    left, answered, wrong, buckets, known = [requests], [0], [], set(), {}

    def expected(at, count, bucket, row):
        key = (at, count, bucket, row)
        with session_lock:
            if key not in known:
                if len(known) > 20000:  # what is kept of them is limited
                    known.clear()
                batch = np.zeros((bucket, 1, 8, 8), np.float32)
                batch[row:row + count] = rows[at:at + count]
                known[key] = engine.run(batch)["logits"][row:row + count].copy()
            return known[key]

    def judge(at, count, parameters, got):
        bucket, row = int(parameters["temper_bucket"]), int(parameters["temper_row"])
        want = expected(at, count, bucket, row)
        with lock:
            answered[0] += 1
            buckets.add(bucket)
            if got.shape != want.shape or got.tobytes() != want.tobytes():
                wrong.append((at, count, bucket, row))

    def of_grpc(result):
        return {name: value.int64_param for name, value in result.get_response().parameters.items()}

    def work(kind, number):
        try:
            draw = random.Random(number)
            module = http if kind.startswith("http") else grpc
            patient = {"network_timeout": 900, "connection_timeout": 900} if module is http else {}  # whatever else the machine does
            client = module.InferenceServerClient(f"127.0.0.1:{server.port + (0 if module is http else 1)}", **patient)
            results = queue.Queue()
            if kind == "stream":
                client.start_stream(lambda result, error: results.put((result, error)))
            if kind.endswith("shm"):
                name = f"temper_{os.getpid()}_{number}"
                there = shm.create_shared_memory_region(name, "/" + name, MOST * (256 + 40))
                client.register_system_shared_memory(name, "/" + name, MOST * (256 + 40))
            while True:
                with lock:
                    if left[0] == 0:
                        break
                    left[0] -= 1
                count = draw.randint(1, MOST)
                at = draw.randint(0, 64 - count)
                data = rows[at:at + count]
                given = module.InferInput("image", list(data.shape), "FP32")
                asked = module.InferRequestedOutput("logits")
                if kind.endswith("shm"):
                    shm.set_shared_memory_region(there, [data])
                    given.set_shared_memory(name, data.nbytes)
                    asked.set_shared_memory(name, count * 40, MOST * 256)
                else:
                    given.set_data_from_numpy(data)
                if kind == "stream":
                    client.async_stream_infer("digits", [given], outputs=[asked])
                    result, error = results.get(timeout=900)
                    if error:
                        raise error
                else:
                    result = client.infer("digits", [given], outputs=[asked])
                parameters = result.get_response().get("parameters") if module is http else of_grpc(result)
                if kind.endswith("shm"):
                    got = np.array(shm.get_contents_as_numpy(there, np.float32, [count, 10], MOST * 256))
                else:
                    got = result.as_numpy("logits")
                judge(at, count, parameters, got)
            if kind == "stream":
                client.stop_stream()
            if kind.endswith("shm"):
                client.unregister_system_shared_memory(name)
                shm.destroy_shared_memory_region(there)
            client.close()
        except Exception as error:  # shown by whoever asked
            with lock:
                wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(KINDS[n % len(KINDS)], n)) for n in range(clients)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"requests": requests, "answered": answered[0], "wrong": wrong, "buckets": sorted(buckets), "seconds": time.monotonic() - begun}
