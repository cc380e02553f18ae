# SPDX-License-Identifier: Apache-2.0
"""How old the committed figures of a GPU are (benchmarks/gpu-last-run.json): no machine without a GPU can make them anew."""
import datetime
import json
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
run = json.loads((HERE / "gpu-last-run.json").read_text())
days = (datetime.date.today() - datetime.date.fromisoformat(run["date"])).days
revision = run["revision"].split("-")[0]
counted = subprocess.run(["git", "-C", str(HERE), "rev-list", "--count", f"{revision}..HEAD"], capture_output=True, text=True)
commits = f", {counted.stdout.strip()} commits ago" if counted.returncode == 0 else ""
print(f"GPU figures: measured on {run['gpus'][0]['name']} at revision {revision}{commits}, {days} days ago")
