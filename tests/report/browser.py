#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens a page of temper report in headless Chromium with no network and looks at what a reader would see.

usage: browser.py PROGRAM FIXTURES [--screenshots DIR]      exit code 77: there is no Chromium (./dev browser installs it)

For light and dark, wide and narrow: every picture is drawn, nothing is loaded but the page, the console is silent, no
policy is violated, the page is not wider than the screen, and text stands out from what is behind it. The same checks
must fail on pages that were spoiled on purpose.
"""
import argparse
import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

HOSTILE = "models/</script><img src=x onerror=\"alert(1)\">'\u202e{{x}}${y}.onnx"


class Browser:
    """Chromium's own protocol over a pair of pipes: no port is opened."""

    def __init__(self, program, profile):
        commands, self.write = os.pipe()
        self.read, answers = os.pipe()
        # The program wants them as 3 and 4; high numbers first, so that neither is overwritten by the other.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (commands, answers)]
        arguments = ["--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--disable-extensions",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
                     "--disable-dev-shm-usage", "--proxy-server=127.0.0.1:9", "--host-resolver-rules=MAP * ~NOTFOUND",
                     f"--user-data-dir={profile}"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # Chromium's sandbox does not run as root
        self.process = subprocess.Popen(["bash", "-c", f'exec "$0" "$@" 3<&{high[0]} 4>&{high[1]}', program, *arguments, "about:blank"],
                                        pass_fds=high, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (commands, answers, *high):
            os.close(fd)
        self.buffer, self.number, self.events = b"", 0, []

    def close(self):
        os.close(self.write)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read)

    def message(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.read], [], [], left)[0]:
                return None
            part = os.read(self.read, 1 << 20)
            if not part:
                raise RuntimeError("Chromium ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.write, data):]
        while True:
            answer = self.message(60)
            if answer is None:
                raise RuntimeError(f"{method}: no answer")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def collect(self, seconds):
        while (event := self.message(seconds)) is not None:
            self.events.append(event)


# What the page says of itself. Contrast as WCAG 2 defines it, of text drawn in pictures against the ground.
LOOK = r"""(() => {
  const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const luminance = (color) => { const [r, g, b] = color.match(/[\d.]+/g).map(Number); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
  const ground = getComputedStyle(document.body).backgroundColor;
  const contrast = (color) => { const [a, b] = [luminance(color), luminance(ground)]; return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); };
  const charts = [...document.querySelectorAll('.chart')];
  const marks = '.mark-symbol path, .mark-rect path, .mark-line path';
  return {
    ready: charts.every((c) => c.dataset.drawn === 'yes'),
    charts: charts.map((c) => ({ name: c.getAttribute('aria-label'), svgs: c.querySelectorAll('svg').length, marks: c.querySelectorAll(marks).length,
                                 width: c.querySelector('svg')?.getBoundingClientRect().width, box: c.getBoundingClientRect().width,
                                 texts: [...c.querySelectorAll('text')].filter((t) => t.textContent).map((t) => contrast(getComputedStyle(t).fill)) })),
    images: document.querySelectorAll('img').length, tables: document.querySelectorAll('main table').length,
    page: document.documentElement.scrollWidth, ground,
    text: contrast(getComputedStyle(document.body).color), title: document.title,
    verdict: document.querySelector('.verdict')?.textContent ?? '', verdictEnd: document.querySelector('.verdict')?.getBoundingClientRect().bottom ?? 1e9,
  };
})()"""


def open_page(browser, path, dark, width, screenshot):
    """What is wrong with the page, as a list of sentences."""
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        browser.call(f"{domain}.enable", session)
    browser.call("Emulation.setDeviceMetricsOverride", session, width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    browser.call("Emulation.setEmulatedMedia", session, features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
    browser.events.clear()
    url = path.as_uri()
    browser.call("Page.navigate", session, url=url)
    look = {}
    for _ in range(100):
        look = browser.call("Runtime.evaluate", session, expression=LOOK, returnByValue=True)["result"].get("value", {})
        if look.get("ready") and look.get("charts"):
            break
        browser.collect(0.1)
    browser.collect(0.3)
    if screenshot:
        height = browser.call("Page.getLayoutMetrics", session)["cssContentSize"]["height"]
        image = browser.call("Page.captureScreenshot", session, captureBeyondViewport=True, clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        screenshot.write_bytes(base64.b64decode(image["data"]))
    found = []
    for event in browser.events:
        method, what = event["method"], event.get("params", {})
        if method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
            found.append(f"console: {[a.get('value', a.get('description')) for a in what['args']]}")
        elif method == "Runtime.exceptionThrown":
            found.append(f"exception: {what['exceptionDetails'].get('text')}")
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            found.append(f"log: {what['entry']['text'][:200]}")
        elif method == "Network.requestWillBeSent" and what["request"]["url"] != url:
            found.append(f"request: {what['request']['url'][:100]}")
    if not look.get("charts"):
        found.append("there is no picture")
    for chart in look.get("charts", []):
        if chart["svgs"] != 1 or chart["marks"] == 0:
            found.append(f"not drawn: {chart['name']}")
        elif chart["width"] > chart["box"] + 1:
            found.append(f"wider than its place: {chart['name']}")
        elif min(chart["texts"], default=21) < 4.5:
            found.append(f"text hard to read in {chart['name']}: contrast {min(chart['texts']):.1f}")
    if look.get("page", 0) > width:  # the screen's own width: a phone zooms out to fit what is too wide
        found.append(f"the page is {look['page']} pixels wide, the screen {width}")
    if look.get("images") != 0:
        found.append("markup out of a file became an element")
    if look.get("tables", 0) < len(look.get("charts", [])):
        found.append("a picture has no table")
    verdict = look.get("verdict", "")
    if look.get("verdictEnd", 0) > 844 or " ms" not in verdict or "interval" not in verdict:  # the height of a phone's screen
        found.append(f"the first screen does not say the verdict, a median and an interval: {verdict!r}")
    if look.get("text", 0) < 7:
        found.append("the text is hard to read")
    if dark == (look.get("ground") == "rgb(255, 255, 255)"):
        found.append("the ground does not follow the reader's choice of light or dark")
    browser.call("Target.closeTarget", targetId=target)
    return found


def make_page(program, fixtures, folder):
    """A page with every kind of picture, and with names that try to become markup."""
    def run(*arguments, **more):
        return subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True, text=True,
                              env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}, **more).stdout
    run("zoo", "digits_cnn", "-o", "m.onnx")
    run("bench", "m.onnx", "--batch", "1,4,16", "--quick", "--duration", "300ms", "--json", "b.json")
    run("build", "m.onnx", "-o", "m.plan", "--quick")
    (folder / "p.json").write_text(run("profile", "m.plan", "--duration", "100ms", "--json"))
    run("import", "trtexec", *sorted(str(p) for p in pathlib.Path(fixtures).resolve().glob("*.log")), "-o", "i.json")
    def spoil(name, change):
        data = json.loads((folder / name).read_text())
        change(data)
        (folder / name).write_text(json.dumps(data))
    spoil("b.json", lambda d: [r.update(model=HOSTILE) for r in d["runs"]])
    spoil("p.json", lambda d: [s.update(node=HOSTILE + str(i)) for i, s in enumerate(d["steps"])])
    def rate(r):
        return {"rate": r, "right": 99, "ci95": [r - 0.02, min(1, r + 0.01)]}
    rows = [{"precision": p, "plan": "m.plan", "latency_ms": ms, "throughput_per_s": 1e3 / ms, "plan_bytes": 1000, "memory_bytes": None, "drop": d, "answers": {"top1": rate(a)},
             "speed": s and {"ratio": s, "ci99": [s - 0.1, s + 0.2], "why": "", "verdict": "FASTER"}}
            for p, ms, d, a, s in (("fp32", 2, None, 0.98, None), ("bf16", 1.5, 0.001, 0.979, 1.3), ("int8", 1, 0.03, 0.95, 2))]
    (folder / "s.json").write_text(json.dumps({"schema": "temper.study/1", "model": HOSTILE, "data": "d.npz", "metric": "top1", "max_drop": 0.01, "batch": 1, "calibration_samples": 5,
                                               "evaluation_samples": 100, "notes": [HOSTILE], "precisions": rows}))
    run("explain", "m.plan", "--duration", "100ms", "-o", "e.json")
    run("bench", "m.plan", "--rate", "200,400", "--duration", "300ms", "--json", "rates.json")
    run("report", "s.json", "b.json", "i.json", "rates.json", "p.json", "e.json", "-o", "page.html")
    return folder / "page.html"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("fixtures")
    parser.add_argument("--screenshots", type=pathlib.Path)
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        print("skipped: there is no Chromium here; ./dev browser installs it and runs this test")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        page = make_page(options.program.resolve(), options.fixtures, folder)
        if options.screenshots:
            options.screenshots.mkdir(parents=True, exist_ok=True)
        browser, failures = Browser(chromium, folder / "profile"), []
        try:
            for dark in (False, True):
                for width in (1200, 390):
                    label = f"{'dark' if dark else 'light'}-{width}"
                    found = open_page(browser, page, dark, width, options.screenshots and options.screenshots / f"{label}.png")
                    print(f"{label}: {'; '.join(found) or 'fine'}")
                    failures += found
            # What these checks would miss, they would miss silently: each kind of damage must be seen.
            text = page.read_text()
            for what, spoiled, sign in (
                    ("a picture from the network", text.replace("<main>", "<main><img src=\"https://example.org/x.png\" alt=\"\">"), "log: "),
                    ("a script that is not ours", text.replace("<main>", "<main><script>document.title='x'</script>"), "log: "),
                    ("a page whose verdict is out of sight", text.replace("<header>", "<br>" * 60 + "<header>"), "first screen"),
                    ("a picture that cannot be drawn", text.replace("\"mark\":", "\"mork\":", 3), "not drawn: "),
                    ("a page wider than the screen", text.replace("<main>", "<main><svg width=\"2000\" height=\"9\"></svg>"), "pixels wide"),
                    ("text like its ground", text.replace("\"labelColor\":\"var(--muted)\"", "\"labelColor\":\"#eeeeee\""), "hard to read")):
                assert spoiled != text, what
                (folder / "spoiled.html").write_text(spoiled)
                found = open_page(browser, folder / "spoiled.html", False, 390, None)
                if not any(sign in f for f in found):
                    failures.append(f"{what} was not noticed: {found}")
        finally:
            browser.close()
        print("\n".join(failures) or "the page is fine in light and dark, wide and narrow")
        return 1 if failures else 0


sys.exit(main())
