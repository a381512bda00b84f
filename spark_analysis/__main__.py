"""The command `python -m spark_analysis DIR`: writes the report of one experiment.

Standard output gets the verdict and the path of the page; progress goes to standard error. An error is one line on
standard error, and exit code 2.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import TYPE_CHECKING

from spark_analysis.console import progress_bar
from spark_analysis.costs import GET_DOLLARS, PUT_DOLLARS, Prices
from spark_analysis.errors import AnalysisError

if TYPE_CHECKING:
    from collections.abc import Sequence

BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m spark_analysis", description="Convert traces to Parquet, and write the summary and the report."
    )
    parser.add_argument("directory", metavar="DIR", help="the directory of `compare --out`, with raw/ or traces/")
    parser.add_argument("--master", help="the Spark master (default: that of spark-submit, otherwise local[*])")
    parser.add_argument(
        "--no-parquet", action="store_true", help="use the existing DIR/traces and do not convert DIR/raw"
    )
    for name, dollars in (("put", PUT_DOLLARS), ("get", GET_DOLLARS)):
        help_text = f"price of a million {name.upper()}s to an object store, in dollars (default: {dollars:g})"
        parser.add_argument(f"--{name}-price", type=_price, default=dollars, metavar="DOLLARS", help=help_text)
    options = parser.parse_args(arguments)
    try:
        from spark_analysis.analyse import REPORT_FILE, analyse  # noqa: PLC0415 - it needs optional packages

        with progress_bar() as begin:
            verdict = analyse(
                options.directory,
                begin,
                master=options.master,
                parquet=not options.no_parquet,
                prices=Prices(options.put_price, options.get_price),
            )
    except AnalysisError as error:
        sys.stderr.write(f"error: {error}\n")
        return BAD_INPUT
    except ImportError as error:
        sys.stderr.write(f"error: {error}. Run pip install 'pipeline-broker[spark]'\n")
        return BAD_INPUT
    except OSError as error:  # a full disk, a folder without permission
        sys.stderr.write(f"error: {error}\n")
        return BAD_INPUT
    sys.stdout.write(f"{verdict}\nreport: {options.directory.rstrip('/')}/{REPORT_FILE}\n")
    return 0


def _price(text: str) -> float:
    price = float(text)
    if not 0 <= price < math.inf:
        raise ValueError(text)
    return price


if __name__ == "__main__":
    sys.exit(main())
