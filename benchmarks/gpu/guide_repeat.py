"""Whether a run of `guide` comes out the same twice on a GPU, and what deterministic inference costs.

Two runs of equal settings and seeds, each with a farm and a store of its own, on a server with deterministic inference
or without, as its arguments say (`--deterministic` adds it); then `guide compare`.

`python benchmarks/gpu/guide_repeat.py --model FOLDER --folder WORK --deterministic`
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu import common
from benchmarks.gpu.guide_asking import open_asking, write_result
from benchmarks.gpu.guide_learning import add_run_options
from benchmarks.gpu.guide_runs import guide_farm, overrides_of, run_guide, run_settings, write_run_tickets

FLAG = "--enable-deterministic-inference"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_run_options(parser)
    parser.add_argument("--deterministic", action="store_true", help=f"start the server with {FLAG}")
    parser.add_argument("--result", default="gpu_guide_repeat", help="written to benchmarks/results/RESULT.json")
    options = parser.parse_args()
    options.cap = 128
    if options.deterministic:
        options.args = f"{common.server_arguments(options)} {FLAG}"
    base: Path = options.folder
    is_deterministic = FLAG in common.server_arguments(options)
    found: dict[str, Any] = {"deterministic": is_deterministic, "runs": []}
    with open_asking(options) as (asking, version):
        deadline = time.monotonic() + options.seconds
        seed = options.seeds[0]
        for number in (1, 2):
            options.folder = base.resolve() / f"time-{number}"
            options.folder.mkdir(parents=True, exist_ok=True)
            data = base.resolve() / "data"
            write_run_tickets(data, options.shape, options.missions, options.training, 0, seed)
            values = run_settings(options, data, options.folder / "runs", "run", seed, overrides_of(options))
            with guide_farm(options, asking, options.rollout_jobs) as place:
                found["runs"].append(run_guide(place, values, options.folder, deadline))
            write_result(options, version, **found)
    folders = [str(base.resolve() / f"time-{number}" / "runs" / "run") for number in (1, 2)]
    command = [sys.executable, "-m", "orchestrator", "guide", "compare", *folders]
    compared = subprocess.run(command, capture_output=True, text=True, check=False)
    found |= {"compare_code": compared.returncode, "compare": (compared.stdout + compared.stderr)[:4000]}
    write_result(options, version, **found)
    seconds = " and ".join(f"{run['seconds']:.0f} s" for run in found["runs"])
    print(
        f"deterministic: {options.deterministic}; {seconds}; compare {compared.returncode}\n{found['compare'][:1500]}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
