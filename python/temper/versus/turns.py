# SPDX-License-Identifier: Apache-2.0
"""Engines that stay loaded in processes of their own and run in turns: what the comparisons with peers share."""
import contextlib
import json
import os
import selectors
import signal
import statistics
import subprocess
import sys
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
        raise Failure(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr.strip()[-2000:]}")
    return done.stdout, seconds


class Child:
    """An engine that stays loaded in its own process and runs when asked.

    It says `ready {json}` once it is loaded and warm. For every line `N` on its standard input it runs N times and answers with one
    JSON array of N times in milliseconds. start_limit_s, turn_limit_s: what takes longer is taken for hanging (None: any time).
    """

    def __init__(self, name, command, start_limit_s=None, turn_limit_s=None, environment=None):
        self.name, self.turn_limit_s = name, turn_limit_s
        self.log = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.rest = b""
        start = time.perf_counter()
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=environment)
        except OSError as error:
            raise Failure(f"{name} cannot be started: {error}") from error
        try:
            line = self.read(start_limit_s)
            if not line.startswith("ready "):
                raise Failure(f"{name} said {line[:200]!r} instead of 'ready'")
        except BaseException:
            self.close(0)
            raise
        self.start_s = time.perf_counter() - start
        self.ready = json.loads(line[len("ready "):])
        self.count = 1

    def read(self, limit_s):
        """The next line. A Failure says how the process ended, or that it gave none in time."""
        stream = self.process.stdout
        end = None if limit_s is None else time.monotonic() + limit_s
        with selectors.DefaultSelector() as ready:
            ready.register(stream, selectors.EVENT_READ)
            while b"\n" not in self.rest:
                if not ready.select(None if end is None else max(0.0, end - time.monotonic())):
                    raise Failure(f"{self.name} did not answer within {limit_s:.0f} s")
                got = os.read(stream.fileno(), 1 << 20)
                if not got:
                    raise Failure(self.how_it_ended())
                self.rest += got
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode(errors="replace") + "\n"

    def how_it_ended(self):
        code = self.process.wait()
        self.log.seek(0)
        said = self.log.read().strip()[-2000:]
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        return f"{self.name} {how}" + (f":\n{said}" if said else "")

    def ask(self, line):
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except OSError as error:  # it has gone
            raise Failure(self.how_it_ended()) from error
        return json.loads(self.read(self.turn_limit_s))

    def calibrate(self, seconds, least):
        """Runs per turn, so that a turn takes about `seconds`."""
        self.count = max(least, int(seconds * 1e3 / max(statistics.median(self.ask("3")), 1e-6)))

    def turn(self, watch=contextlib.nullcontext):
        """watch(name): a context manager that is open while the engine runs."""
        time.sleep(SETTLE_S)
        with watch(self.name):
            times = self.ask(str(self.count))
        if len(times) != self.count:
            raise Failure(f"{self.name} ran {len(times)} times instead of {self.count}")
        return times

    def close(self, patience_s=20):
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            self.process.wait(timeout=patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "per_round": values}


def rounds_of(children, rounds, failed=None, each_round=None, watch=contextlib.nullcontext):
    """All samples by engine and round; every other round runs in the opposite order.

    failed: gets, by name, the Failure of an engine that ended or hung; the others go on. Without it, a Failure ends all.
    watch: as Child.turn has it.
    """
    samples = {child.name: [] for child in children}
    for i in range(rounds):
        for child in children if i % 2 == 0 else children[::-1]:
            if failed is not None and child.name in failed:
                continue
            try:
                samples[child.name].append(child.turn(watch))
            except Failure as failure:
                if failed is None:
                    raise
                failed[child.name] = failure
        if each_round:
            each_round(i + 1)
    return samples


def medians(samples):
    return {name: [statistics.median(turn) for turn in turns] for name, turns in samples.items()}


def tactics_of(inspected):
    """The tactic of each step of all plans that `temper inspect --layers --json` shows."""
    return [step.get("tactic") or "" for plan in inspected.get("plans", []) for segment in plan.get("segments", []) for step in segment.get("steps", [])]


def run_as_program(name, main):
    """Ends the process with the exit code of `main`; a Failure is one line and exit code 2."""
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"{name}: {failure}", file=sys.stderr)
        sys.exit(2)


def save(path, content):
    """Writes JSON atomically: a run that is interrupted leaves what was saved before."""
    with open(path + ".tmp", "w") as file:
        json.dump(content, file, indent=1)
    os.replace(path + ".tmp", path)
