"""Write the checksums of the dashboard's files: after a change of one of them.

    python scripts/sum_dashboard_files.py

What the list does not name is not served. The files of `pipeline_charts` are in it too.
"""

import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "pipeline_broker/dashboard/static"
CHARTS = ROOT / "pipeline_charts"
LIST = FOLDER / "checksums.json"


def main() -> None:
    """Write the list."""
    files = [*(path for path in FOLDER.iterdir() if path != LIST), *CHARTS.glob("uPlot.*")]
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files, key=lambda it: it.name)}
    LIST.write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
