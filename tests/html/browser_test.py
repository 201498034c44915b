"""Opens the page that html_test wrote in headless Chromium and points at it.

usage: browser_test.py FOLDER (with html_sample.html and html_sample.trace)
Exit codes: 0 passed, 1 failed, 77 skipped: no Chromium on this machine.

What a reader must see is computed here from the trace, by arithmetic alone: after
each request of the step, the sum of the live requests, each rounded up to 512.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile


def expected(path):
    """(total bytes, operator, module) after each request and release of the step."""
    operators, modules, live, points, in_step = [], [], {}, [], False
    for line in open(path, encoding="utf-8"):
        kind, _, rest = line.rstrip("\n").partition(" ")
        if kind == "o":
            operators.append(rest)
        elif kind == "m":
            modules.append(rest.partition(" ")[2])
        elif kind == "#":
            in_step = in_step or rest.startswith("step b=")
        elif kind in "af":
            address, size, _, op, module = rest.split(" ")
            if kind == "a":
                live[address] = (int(size) + 511) // 512 * 512
            else:
                del live[address]
            if in_step:
                points.append((sum(live.values()),
                               operators[int(op)] if int(op) >= 0 else "",
                               modules[int(module)] if int(module) >= 0 else ""))
    return points


class Browser:
    """Chromium, spoken to over a pipe (--remote-debugging-pipe): no port, no library."""

    def __init__(self, program, width, dark):
        to_child, self.out = os.pipe()
        self.into, from_child = os.pipe()
        self.profile = tempfile.mkdtemp(prefix="memmodel-browser-")

        def descriptors():  # the protocol's are 3 and 4
            high_in, high_out = os.dup(to_child), os.dup(from_child)
            os.dup2(high_in, 3)
            os.dup2(high_out, 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        arguments = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     "--disable-dev-shm-usage", f"--window-size={width},900",
                     f"--user-data-dir={self.profile}", "--remote-debugging-pipe"]
        if dark:
            arguments.append("--force-dark-mode")
        self.process = subprocess.Popen(arguments, preexec_fn=descriptors, close_fds=False,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.buffer, self.count, self.session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def read(self):
        while b"\0" not in self.buffer:
            part = os.read(self.into, 1 << 16)
            if not part:
                raise RuntimeError("the browser ended")
            self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(line)

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def open(self, path):
        self.call("Page.enable")
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        for _ in range(600):
            if self.evaluate("document.readyState === 'complete' && "
                             "!!document.getElementById('readout-total')"):
                return
        raise RuntimeError("the page did not finish")

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        self.process.wait(timeout=30)
        shutil.rmtree(self.profile, ignore_errors=True)


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def shown(browser):
    return (browser.evaluate("document.getElementById('readout-total').textContent"),
            browser.evaluate("document.getElementById('readout-where').textContent"))


def matches(browser, point, what):
    total, where = shown(browser)
    check(total == f"{point[0]:,} bytes", f"{what}: the page shows {total}, expected {point[0]}")
    check(point[1] in where, f"{what}: '{where}' does not name the operator {point[1]}")
    check(point[2] in where, f"{what}: '{where}' does not name the layer {point[2]}")


def key(browser, name, modifiers=0):
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=name, modifiers=modifiers)


def test_page(program, folder, width):
    points = expected(os.path.join(folder, "html_sample.trace"))
    peak = max(range(len(points)), key=lambda i: points[i][0])
    browser = Browser(program, width, dark=False)
    try:
        browser.open(os.path.join(folder, "html_sample.html"))
        matches(browser, points[peak], "before anything is pointed at, the peak")
        box = browser.evaluate(
            "document.getElementById('timeline').scrollIntoView({block: 'center'});"
            "(() => { const b = document.getElementById('timeline').getBoundingClientRect();"
            "return [b.left, b.top, b.width, b.height]; })()")
        left = box[0] + 70  # the margins of page.html's picture
        span = box[2] - 70 - 12
        for i, point in enumerate(points):
            browser.call("Input.dispatchMouseEvent", type="mouseMoved",
                         x=left + span * (i + 0.5) / len(points), y=box[1] + box[3] / 2)
            matches(browser, point, f"pointing at request {i} at width {width}")
        browser.evaluate("document.getElementById('timeline').focus()")
        key(browser, "Home")
        matches(browser, points[0], "after Home")
        key(browser, "ArrowRight")
        matches(browser, points[1], "after the right arrow")
        key(browser, "p")
        matches(browser, points[peak], "after P")
        wide = browser.evaluate("document.documentElement.scrollWidth")
        check(wide <= width, f"at width {width} the page is {wide} wide")
        before = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        browser.evaluate("document.getElementById('theme').click()")
        after = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        check(before != after, "the button does not change between dark and light")
        circles = browser.evaluate("document.querySelectorAll('#curve circle.device').length")
        check(circles == 4, f"the curve has {circles} points, expected 4")
    finally:
        browser.close()


def main():
    program = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
                    if p), None)
    if program is None:
        print("skipped: no chromium on this machine")
        return 77
    for width in (1280, 520):
        test_page(program, sys.argv[1], width)
    print("passed: pointing, keys, widths, themes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
