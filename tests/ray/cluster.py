# SPDX-License-Identifier: Apache-2.0
"""Clusters of several nodes on this machine's loopback, for tests: every process of theirs ends with them."""
import logging
import os
import pathlib
import secrets
import shutil
import signal
import sys
import tempfile
import time

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # the address of a node is 127.0.0.1, as Ray has it on other systems
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # not one in the home folder
_MARK = f"TEMPER_RAY_TEST={os.getpid()}"
os.environ["TEMPER_RAY_TEST"] = str(os.getpid())  # by it the processes of a cluster are known

import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

MEMORY = 150 << 20


def processes():
    """Those that a cluster of this process started and that still live."""
    found = []
    for path in pathlib.Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            try:
                if _MARK in (path / "environ").read_bytes().decode(errors="replace").split("\0") and (path / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append(int(path.name))
            except OSError:  # it ended, or is another user's
                continue
    return found


class Nodes:
    """A cluster whose head computes nothing; `hook` is called in every process that runs tasks."""

    def __init__(self, *, hook=None, path=""):
        self.folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # short: sockets lie in it
        os.environ["RAY_TMPDIR"] = self.folder
        os.mkdir(os.path.join(self.folder, "ray"))
        self.cluster = Cluster(initialize_head=True, head_node_args={
            "num_cpus": 0, "include_dashboard": False, "node_ip_address": "127.0.0.1", "object_store_memory": MEMORY})  # fmt: skip
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH", "")]))}
        runtime = {"env_vars": environment} | ({"worker_process_setup_hook": hook} if hook else {})
        for name in ("ray.data", "ray"):
            logging.getLogger(name).setLevel(logging.ERROR)
        ray.init(address=self.cluster.address, runtime_env=runtime, log_to_driver=False, logging_level="ERROR")
        ray.data.DataContext.get_current().enable_progress_bars = False

    def add(self, cpus=1, **environment):
        """A node; its name is a resource of its own."""
        resources = environment.pop("resources", {})
        node = self.cluster.add_node(num_cpus=cpus, node_ip_address="127.0.0.1", object_store_memory=MEMORY, resources=resources, env_vars=environment)
        return node

    def kill(self, node):
        self.cluster.remove_node(node, allow_graceful=False)

    def stop(self):
        ray.shutdown()
        self.cluster.shutdown()
        for _ in range(100):
            left = processes()
            if not left:
                break
            time.sleep(0.1)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
        if left:
            print(f"{len(left)} processes had not ended by themselves", file=sys.stderr)
