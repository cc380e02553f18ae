# SPDX-License-Identifier: Apache-2.0
"""Runs the program under limits, and counts what went wrong."""
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import threading

PROGRAM = os.path.abspath(sys.argv[1])
LONG = bool(os.environ.get("TEMPER_HOSTILE"))  # the whole of each list, in the time it takes
MEMORY = 2 << 30
CPU_SECONDS = 120  # twelve times what a case may take on a machine that does nothing else


class Outcome:
    def __init__(self, command, code, out, err, memory, seconds):
        self.command, self.code, self.out, self.err, self.memory, self.seconds = command, code, out, err, memory, seconds

    def __str__(self):
        text = (self.err or self.out).decode("utf-8", "replace")
        return f"temper {' '.join(self.command)[:120]}: exit {self.code}, {self.seconds:.1f} s, {self.memory >> 20} MiB: {text[:300]!r}"


class Cases:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="temper_hostile_"))
        self.count, self.failures, self.most_memory, self.most_seconds = 0, [], 0, 0.0

    def write(self, name, content):
        (self.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def run(self, *command, address_space=None, environment=None):
        def limits():
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if address_space:
                resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))

        names = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache"), "OMP_NUM_THREADS": "2", **(environment or {})}
        process = subprocess.Popen([PROGRAM, *command], cwd=self.folder, env=names, preexec_fn=limits, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        texts = {}
        readers = [threading.Thread(target=lambda k=k, s=s: texts.update({k: s.read()})) for k, s in (("out", process.stdout), ("err", process.stderr))]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        outcome = Outcome(command, process.returncode, texts["out"], texts["err"], usage.ru_maxrss << 10, usage.ru_utime + usage.ru_stime)
        self.count += 1
        self.most_memory, self.most_seconds = max(self.most_memory, outcome.memory), max(self.most_seconds, outcome.seconds)
        return outcome

    def expect(self, holds, outcome, what):
        if not holds:
            self.failures.append(f"{what}: {outcome}")
            print(self.failures[-1], flush=True)
        return holds

    def documented(self, outcome, codes=range(6), memory=MEMORY):
        """An exit code that stands in the manual, within time and memory; a refusal is one line."""
        self.expect(outcome.code in codes, outcome, f"the exit code is none of {list(codes)}")
        self.expect(outcome.memory <= memory, outcome, "took too much memory")
        if outcome.code not in (0, 1):
            last = outcome.err.splitlines()[-1:] or [b""]
            self.expect(last[0].startswith(b"temper: ") and len(last[0]) < 10000, outcome, "the last line does not say why")
        return outcome

    def finish(self):
        shutil.rmtree(self.folder)
        print(f"{self.count} runs, at most {self.most_memory >> 20} MiB and {self.most_seconds:.1f} s; {len(self.failures)} failures")
        sys.exit(1 if self.failures or not self.count else 0)
