# SPDX-License-Identifier: Apache-2.0
"""Engines that stay loaded in processes of their own and run in turns: what the comparisons with peers share."""
import json
import os
import statistics
import subprocess
import tempfile
import time

SETTLE_S = 0.05  # threads of the engine before may still spin for a moment


class Failure(Exception):
    pass


def run_program(command):
    """Runs to the end; returns (standard output, seconds)."""
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr.strip()[-2000:]}")
    return done.stdout, seconds


class Child:
    """An engine that stays loaded in its own process and runs when asked."""

    def __init__(self, name, command):
        self.name = name
        self.log = tempfile.TemporaryFile(mode="w+")
        start = time.perf_counter()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.read()
        if not line.startswith("ready "):
            raise Failure(f"{name} said {line[:200]!r} instead of 'ready'")
        self.start_s = time.perf_counter() - start
        self.ready = json.loads(line[len("ready "):])
        self.count = 1

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            raise Failure(f"{self.name} ended with {self.process.returncode}:\n{self.log.read().strip()[-2000:]}")
        return line

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.read())

    def calibrate(self, seconds, least):
        """Runs per turn, so that a turn takes about `seconds`."""
        self.count = max(least, int(seconds * 1e3 / statistics.median(self.ask("3"))))

    def turn(self):
        time.sleep(SETTLE_S)
        times = self.ask(str(self.count))
        if len(times) != self.count:
            raise Failure(f"{self.name} ran {len(times)} times instead of {self.count}")
        return times

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "per_round": values}


def rounds_of(children, rounds):
    """All samples by engine and round; every other round runs in the opposite order."""
    samples = {child.name: [] for child in children}
    for i in range(rounds):
        for child in children if i % 2 == 0 else children[::-1]:
            samples[child.name].append(child.turn())
    return samples


def medians(samples):
    return {name: [statistics.median(turn) for turn in turns] for name, turns in samples.items()}


def save(path, content):
    """Writes JSON atomically: a run that is interrupted leaves what was saved before."""
    with open(path + ".tmp", "w") as file:
        json.dump(content, file, indent=1)
    os.replace(path + ".tmp", path)
