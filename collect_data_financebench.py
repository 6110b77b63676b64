"""`orchestrator collect` under another name, with the same arguments and exit status.

python collect_data_financebench.py --config configs/collect.yaml [--resume]
"""

from __future__ import annotations

import sys

from orchestrator.cli import main

if __name__ == "__main__":
    sys.exit(main(["collect", *sys.argv[1:]]))
