# SPDX-License-Identifier: Apache-2.0
"""A Ray Serve deployment around an engine: requests that come together are run together.

    python3 examples/ray/serve_digits.py digits.plan
"""
import sys

import numpy
from ray import serve

import temper


@serve.deployment(num_replicas=1, max_ongoing_requests=64)
class Digits:
    def __init__(self, plan: bytes) -> None:
        self.session = temper.load(plan).session()  # one for each replica, whose batches come one after the other

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.002)
    async def answers(self, pictures: list[numpy.ndarray]) -> list[int]:
        scores = self.session.run(numpy.stack(pictures))["logits"]
        return [int(best) for best in scores.argmax(axis=1)]

    async def __call__(self, picture: numpy.ndarray) -> int:
        return await self.answers(picture)


if __name__ == "__main__":
    import ray

    # On this machine; a cluster is ray.init(address="auto").
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    serve.start(proxy_location="Disabled")  # asked by handle; HTTP is serve.start()'s own matter, or Triton's: docs/serving.md
    with open(sys.argv[1], "rb") as file:
        handle = serve.run(Digits.bind(file.read()))
    pictures = numpy.random.default_rng(0).random((100, 1, 8, 8), dtype=numpy.float32)
    asked = [handle.remote(picture) for picture in pictures]
    digits = [answer.result(timeout_s=60) for answer in asked]
    alone = temper.load(sys.argv[1]).run(pictures[:16])["logits"].argmax(axis=1)
    print(f"{len(digits)} answers, the first: {digits[:8]}")
    assert digits[:16] == alone.tolist()
    serve.shutdown()
    ray.shutdown()
