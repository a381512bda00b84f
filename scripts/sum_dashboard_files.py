"""Write the checksums of the dashboard's files, after one of them has changed.

    python scripts/sum_dashboard_files.py

The dashboard serves only files in this list, which also contains those of `pipeline_charts`.
"""

import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "pipeline_broker/dashboard/static"
CHARTS = ROOT / "pipeline_charts"
LIST = FOLDER / "checksums.json"


def main() -> None:
    files = [*(path for path in FOLDER.iterdir() if path != LIST), *CHARTS.glob("uPlot.*")]
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files, key=lambda it: it.name)}
    LIST.write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
