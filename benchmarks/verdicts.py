# SPDX-License-Identifier: Apache-2.0
"""How often `temper compare` is right: one plan against itself, and against itself slowed on purpose.

Each pair is a process of its own. Where the verdict is UNSURE, the pair is measured again for as long as the answer asks
for (at most --tries times, and --longest seconds each); the last verdict counts.
"""
import argparse
import collections
import json
import os
import subprocess
import sys


def compare(arguments, plan, burn, seconds):
    command = [arguments.temper, "compare", plan, plan, "--json", "--quiet", "--duration", f"{seconds:.1f}s"]
    if burn:
        command += ["--burn", burn]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)["plans"][1]["speed"]


def verdicts(arguments, burn):
    counts = collections.Counter()
    rows = []
    for pair in range(arguments.pairs):
        seconds, tries = arguments.duration, 0
        while True:
            speed = compare(arguments, arguments.plan, burn, seconds)
            tries += 1
            if speed["verdict"] != "UNSURE" or tries == arguments.tries or seconds >= arguments.longest:
                break
            asked = speed["seconds"] * speed["rounds_needed"] / speed["rounds"] * 1.2 if speed["rounds_needed"] else seconds
            seconds = min(max(asked, seconds), arguments.longest)
        counts[speed["verdict"]] += 1
        rows.append({"ratio": speed["ratio"], "ci99": speed["ci99"], "verdict": speed["verdict"], "why": speed["why"],
                     "rounds": speed["rounds"], "seconds": speed["seconds"], "tries": tries})
        print(f"{burn or 'A/A':>4} {pair + 1:4} {speed['ratio']:.4f} {speed['verdict']:7} after {tries} tries, "
              f"{speed['rounds']} rounds {speed['why']}", file=sys.stderr, flush=True)
    return counts, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plan")
    parser.add_argument("--temper", default=os.path.join(os.path.dirname(__file__), "..", "build", "temper"))
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--duration", type=float, default=4, help="seconds of the first try")
    parser.add_argument("--longest", type=float, default=40, help="seconds a try may ask for")
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--burn", default="3%", help="by how much the second is slowed; 0%% leaves that half out")
    parser.add_argument("--only-burn", action="store_true", help="leave out the plan against itself")
    parser.add_argument("--json", help="file for every pair's answer")
    arguments = parser.parse_args()
    kinds = ([] if arguments.only_burn else [""]) + ([] if arguments.burn == "0%" else [arguments.burn])
    results = {}
    print("| pair | FASTER | SLOWER | SAME | UNSURE |\n|---|---:|---:|---:|---:|")
    for burn in kinds:
        counts, rows = verdicts(arguments, burn)
        results[burn or "itself"] = rows
        name = f"slowed by {burn}" if burn else "itself"
        print(f"| {name} | {counts['FASTER']} | {counts['SLOWER']} | {counts['SAME']} | {counts['UNSURE']} |", flush=True)
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
