# SPDX-License-Identifier: Apache-2.0
"""What other processes did to the machine while something was measured, from /proc."""
import os
import time

TICKS = os.sysconf("SC_CLK_TCK")


class LoadMeter:
    """Cores that neither this process nor those of the `children` used, on average, since it was made."""

    def __init__(self, children):
        self.pids = ["self"] + [str(child.process.pid) for child in children if child.process]
        self.start = time.perf_counter()
        self.busy, self.own = self.read()

    def read(self):
        busy = own = 0
        allowed = os.sched_getaffinity(0)
        with open("/proc/stat") as stat:
            for line in stat:
                name, *times = line.split()
                if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in allowed:
                    user, nice, system, _, _, irq, softirq, steal = (int(t) for t in times[:8])
                    busy += user + nice + system + irq + softirq + steal
        for pid in self.pids:
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    fields = stat.read().rpartition(")")[2].split()  # behind the name, which may hold anything
                own += int(fields[11]) + int(fields[12])  # its user and system time
            except OSError:  # it ended: what it used is not taken off
                pass
        return busy / TICKS, own / TICKS

    def cores(self):
        busy, own = self.read()
        return max(0.0, (busy - self.busy - own + self.own) / (time.perf_counter() - self.start))
