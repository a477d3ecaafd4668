"""What the live view costs, and how soon an event is seen: ``python benchmarks/view_cost.py``.

Runs a lab in a real JupyterLab and a real Chromium and tells, for each lab,

- the shares of one core that the painter's thread and the whole kernel took from the first trial to
  the last, and in all, with matplotlib's import while the trials' host still imports torch;
- the shares of the Jupyter server and the browser, all of its processes;
- the time from a batch's event to the moment at which the page had loaded a frame that shows it.

Events, frames and page are timed by one machine's clocks. Arguments: names of labs; without any,
worker_plateau and kitchen.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from browser import driver

_CELL = """
import json, time, labkit
from labkit.events import BatchLoaded, TrialStarted
from labkit.view import fold, live_picture
heard, frames, spent, ages = [], [], [], time.time() - time.monotonic()
take, frame = fold.Folder.take, live_picture.LivePicture.frame
def take_and_note(self, events):
    events = list(events)
    if any(isinstance(event.body, TrialStarted) for event in events):
        spent.append((time.thread_time(), time.process_time(), time.monotonic()))
    heard.extend(event.t for event in events if isinstance(event.body, BatchLoaded))
    take(self, events)
def frame_and_note(self, snapshot):
    data = frame(self, snapshot)
    frames.append((len(data), [t + ages for t in heard]))
    heard.clear()
    return data
fold.Folder.take, live_picture.LivePicture.frame = take_and_note, frame_and_note
begun = time.monotonic()
result = labkit.run({name!r}, size="full")
print(json.dumps({{"wall": time.monotonic() - begun, "frames": frames,
                  "measuring": [spent[-1][place] - spent[0][place] for place in (0, 1, 2)],
                  "painter": result.painter_seconds}}), file=open("view_cost.json", "w"))
"""
_WATCH = """() => {
  window.loads = [];
  document.addEventListener('load', event => {
    if (!event.target.classList?.contains('widget-image')) return;
    const at = Date.now() / 1000;
    fetch(event.target.src).then(r => r.blob()).then(b => window.loads.push([b.size, at]));
  }, true);
}"""
"""Loads of every live frame: its size tells which it is."""


def cpu_seconds(process: psutil.Process) -> float:
    """CPU time of a process and all below it that still live, with the children it waited for."""
    total = 0.0
    for each in [process, *process.children(recursive=True)]:
        try:
            times = each.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def own_seconds(process: psutil.Process) -> float:
    """CPU time of a process alone."""
    times = process.cpu_times()
    return times.user + times.system


def latencies(frames: list[Any], loads: list[tuple[int, float]]) -> list[float]:
    """Seconds from each event to the load of the frame that first showed it."""
    found, place = [], 0
    for size, moments in frames:
        for index in range(place, len(loads)):
            if loads[index][0] == size:
                found += [loads[index][1] - moment for moment in moments]
                place = index + 1
                break
    return sorted(found)


def measure(name: str, site: driver.Site, browser: Any) -> None:
    """Run one lab and print what showing it cost."""
    notebook = driver.open_notebook(site, browser, (_CELL.format(name=name),), name=f"{name}.ipynb")
    notebook.page.evaluate(_WATCH)
    told = site.folder / "view_cost.json"
    told.unlink(missing_ok=True)
    server, kernel = find("--notebook-dir"), find("ipykernel_launcher")
    page = next(p for p in psutil.Process().children(recursive=True) if "chromium" in p.name())
    before = own_seconds(server), own_seconds(kernel), cpu_seconds(page)
    notebook.run_all()
    driver.wait_for(told.exists, 600)
    after = own_seconds(server), own_seconds(kernel), cpu_seconds(page)
    time.sleep(1)
    run = json.loads(told.read_text())
    wall = run["wall"]
    shares = [(b - a) / wall for a, b in zip(before, after, strict=True)]
    seen = latencies(run["frames"], notebook.page.evaluate("() => window.loads"))
    print(f"{name}: {wall:.0f} s, {len(run['frames'])} frames")
    painter, whole, seconds = run["measuring"]
    print(f"  while it measures: painter {painter / seconds:.1%} of one core, whole kernel"
          f" {whole / seconds:.1%}; with the start: painter {run['painter'] / wall:.1%}, kernel"
          f" {shares[1]:.1%}, server {shares[0]:.1%}, browser {shares[2]:.1%}")  # fmt: skip
    if seen:
        middle, late = seen[len(seen) // 2], seen[int(len(seen) * 0.95)]
        print(f"  event to picture: median {middle:.2f} s, 95 % {late:.2f} s, most {seen[-1]:.2f} s"
              f" ({len(seen)} events)")  # fmt: skip
    notebook.page.context.close()
    site.end_kernels()


def find(word: str) -> psutil.Process:
    """The child of ours whose command has this word."""
    children = psutil.Process().children(recursive=True)
    return next(p for p in children if any(word in part for part in p.cmdline()))


def main() -> None:
    """Measure the labs that were named."""
    with (
        tempfile.TemporaryDirectory() as folder,
        driver.jupyterlab(Path(folder)) as site,
        driver.chromium() as browser,
    ):
        for name in sys.argv[1:] or ["worker_plateau", "kitchen"]:
            measure(name, site, browser)


if __name__ == "__main__":
    main()
