"""The commands of the command line, one module each.

Rules of the package:

* `pipeline-broker --help` imports no command, so it is fast. `serve` imports Trio when it runs.
* Every failure is one line on standard error that says what to do.
* A mistake of the user exits with code 2, a failed request with code 1. `faults` and `timelines` always exit with 2.
* A password is never an option, because other users can see the arguments of a process.
"""
