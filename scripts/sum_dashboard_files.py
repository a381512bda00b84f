"""Write the checksums of the dashboard's files: after a change of one of them.

    python scripts/sum_dashboard_files.py

What the list does not name is not served. The files of uPlot are those of version 1.6.32 in the npm registry
(`npm pack uplot@1.6.32`, dist/uPlot.iife.min.js, dist/uPlot.min.css and LICENSE), unchanged; a test holds them to the
checksums that are written there.
"""

import hashlib
import json
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "pipeline_broker/dashboard/static"
LIST = FOLDER / "checksums.json"


def main() -> None:
    """Write the list."""
    files = sorted(path for path in FOLDER.iterdir() if path != LIST)
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    LIST.write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
