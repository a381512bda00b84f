"""The commands of the command line, one module each.

Rules of the package:

* `--help` imports neither Trio nor the client, so it is fast. A command imports them when it runs.
* Every failure is one line on standard error that says what to do.
* A mistake of the user exits with code 2, a failed request with code 1.
* A password is never an option, because other users can see the arguments of a process.
"""
