"""Phase 0 under the name that its plan gives it: `orchestrator collect`, with the same arguments and exit status.

python collect_data_financebench.py --config path/to/kconfig.yaml [--resume]
"""

from __future__ import annotations

import sys

from orchestrator.cli import main

if __name__ == "__main__":
    main(["collect", *sys.argv[1:]])
