# SPDX-License-Identifier: Apache-2.0
"""Triton's real server on loopback, for tests and benchmarks: started in a folder, stopped whatever happens."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request


def free_ports():
    """The first of three ports that nobody has."""
    for first in range(18000 + os.getpid() % 500 * 4, 32000, 4):
        try:
            for port in range(first, first + 3):
                with socket.socket() as s:
                    s.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    raise RuntimeError("no free ports")


class Server:
    """`repository` served with the backend of the build folder, and the wheel's Python backend."""

    def __init__(self, build, triton, repository, *options, wait=True, environment=None, command=None):
        self.port = free_ports()
        self.log = pathlib.Path(repository).parent / f"server-{self.port}.log"
        if command is None:
            backends = pathlib.Path(repository).parent / "backends"
            if not backends.exists():
                backends.mkdir()
                (backends / "temper").symlink_to(pathlib.Path(build).resolve() / "backends/temper")
                # The stub's Python knows no packages but what lies beside its module.
                (backends / "python").mkdir()
                for path in [*(pathlib.Path(triton) / "pytriton/tritonserver/backends/python").iterdir(), *(pathlib.Path(triton) / "packages" / name for name in ("numpy", "numpy.libs"))]:
                    (backends / "python" / path.name).symlink_to(path)
            command = [str(pathlib.Path(build).resolve() / "temper"), "serve", "--repository", str(repository), "--backends", str(backends),
                       "--triton", str(pathlib.Path(triton) / "bin/tritonserver"), "--exit-timeout", "5"]
        words = [*command, "--port", str(self.port)]
        words += [f"--server-option={option}" for option in options]
        self.started = time.monotonic()
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=dict(os.environ, **(environment or {})))
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self, seconds=60):
        while time.monotonic() - self.started < seconds:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}:\n{self.complaints()}")
            if self.answers("/v2/health/ready"):
                self.ready_s = time.monotonic() - self.started
                return
            time.sleep(0.005)
        raise RuntimeError(f"the server is not ready:\n{self.complaints()}")

    def answers(self, path):
        try:
            with urllib.request.urlopen(self.url(path), timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def url(self, path, more=0):
        return f"http://127.0.0.1:{self.port + more}{path}"

    def get(self, path, more=0):
        with urllib.request.urlopen(self.url(path, more), timeout=900) as answer:
            return answer.read().decode()

    def post(self, path, body=None):
        """The status and the text: errors are answers, too."""
        request = urllib.request.Request(self.url(path), json.dumps(body or {}).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=900) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def load(self, model, **parameters):
        return self.post(f"/v2/repository/models/{model}/load", {"parameters": parameters} if parameters else {})

    def unload(self, model):
        return self.post(f"/v2/repository/models/{model}/unload")

    def metric(self, name, **labels):
        total = 0.0
        for line in self.get("/metrics", 2).splitlines():
            if line.startswith(name + "{") and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def statistics(self, model):
        return json.loads(self.get(f"/v2/models/{model}/stats"))["model_stats"][0]

    def memory_mib(self):
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1]) / 1024

    def text(self):
        return self.log.read_text(errors="replace")

    def complaints(self):
        lines = [line for line in self.text().splitlines() if not line.startswith(("|", "+", "I"))]
        return "\n".join(lines)[-3000:]

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


@contextlib.contextmanager
def folder(prefix="temper-triton-"):
    import tempfile
    path = pathlib.Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
