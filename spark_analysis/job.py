"""The analysis as a file for spark-submit: `spark-submit spark_analysis/job.py DIR`.

The file also works if the package is not installed: it puts the folder above the package on the path.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from spark_analysis.__main__ import main

    sys.exit(main())
