# SPDX-License-Identifier: Apache-2.0
"""A GPU's clock, power and temperature while an engine has its turn: what gpu_peers.py and gpu_suite.py save beside times.

NVML is asked every 20 ms, as `temper bench` does (src/bench/gpu_sampler.cc); but here PyTorch's turns count, too. Watts are
joules by seconds: the power that NVML says itself is a mean of the last second, and turns are shorter."""
import contextlib
import ctypes
import statistics
import threading
import time

PERIOD_S = 0.02
MULTIPROCESSORS = 1  # of NVML's kinds of clocks
REASONS = {0x4: "power limit", 0x8: "hardware slowdown", 0x20: "temperature", 0x40: "temperature (hardware)", 0x80: "power brake"}


def pci_bus_id_of(doctor, device):
    """Where the GPU of "cuda:1" is, by what `temper doctor --json` says; None: the device is no GPU."""
    kind, _, number = device.partition(":")
    return doctor["gpus"][int(number or 0)]["pci_bus_id"] if kind == "cuda" else None


class GpuStates:
    """States of one GPU, by engine and turn. Without NVML there are none, and `why` says so."""

    def __init__(self, pci_bus_id):
        self.turns, self.why = {}, None
        if pci_bus_id is None:
            self.why = "not a GPU"
            return
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            self.why = str(error)
            return
        self.device = ctypes.c_void_p()
        if (code := self.nvml.nvmlInit_v2()) or (code := self.nvml.nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.encode(), ctypes.byref(self.device))):
            self.nvml.nvmlErrorString.restype = ctypes.c_char_p
            self.why = f"NVML: {self.nvml.nvmlErrorString(code).decode()}"

    def number(self, kind, function, *arguments):
        """What a function of NVML answers; None where this GPU does not say it."""
        value = kind()
        return None if getattr(self.nvml, function)(self.device, *arguments, ctypes.byref(value)) else value.value

    def state(self):
        return {"time": time.monotonic(), "mhz": self.number(ctypes.c_uint, "nvmlDeviceGetClockInfo", MULTIPROCESSORS),
                "celsius": self.number(ctypes.c_uint, "nvmlDeviceGetTemperature", 0),
                "reasons": self.number(ctypes.c_ulonglong, "nvmlDeviceGetCurrentClocksThrottleReasons") or 0,
                "millijoules": self.number(ctypes.c_ulonglong, "nvmlDeviceGetTotalEnergyConsumption")}

    @contextlib.contextmanager
    def turn(self, engine):
        """Watches the GPU while the engine runs."""
        if self.why:
            yield
            return
        states, ended = [self.state()], threading.Event()

        def watch():
            while not ended.wait(PERIOD_S):
                states.append(self.state())

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        self.turns.setdefault(engine, []).append(summary(states))


def summary(states):
    """One turn in figures, named as in docs/results.md; those that the GPU does not say are None."""
    known = lambda key: [state[key] for state in states if state[key] is not None]
    clocks, heat, energy = known("mhz"), known("celsius"), [state for state in states if state["millijoules"] is not None]
    # The counter moves by steps: from the first to the last of them.
    steps = [b for a, b in zip(energy, energy[1:]) if b["millijoules"] != a["millijoules"]]
    reasons = 0
    for state in states:
        reasons |= state["reasons"]
    return {"clock_mhz_median": statistics.median(clocks) if clocks else None, "clock_mhz_min": min(clocks, default=None),
            "watts_mean": (steps[-1]["millijoules"] - steps[0]["millijoules"]) / 1e3 / (steps[-1]["time"] - steps[0]["time"]) if len(steps) > 1 else None,
            "celsius_max": max(heat, default=None), "throttled": [name for bit, name in REASONS.items() if reasons & bit]}


def text_of(turns):
    """Of all turns of an engine: "1755 MHz, 512 W, power limit"; empty where nothing is known."""
    median_of = lambda key: [turn[key] for turn in turns if turn[key] is not None]
    parts = [f"{statistics.median(values):.0f} {unit}" for key, unit in (("clock_mhz_median", "MHz"), ("watts_mean", "W")) if (values := median_of(key))]
    return ", ".join(parts + sorted({reason for turn in turns for reason in turn["throttled"]}))
