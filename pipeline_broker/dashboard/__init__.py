"""The web dashboard of a running broker, served by the broker itself.

`Dashboard` answers HTTP requests, and server-sent events carry the live views. Views are plain functions without Trio
that return JSON, or generators of `Steps` if clients decide how much there is to read.

Rules of the package:

* `access` checks every request first. `routes` lists all addresses; each change is a POST.
* A request has the rights of its user, or of the dashboard's principal. `rights` lists those of the views.
* A change is a request of Kafka's protocol, or of the schema registry. Its handler decides it like that of a client,
  and the answer follows once it is durable.
* Lists and texts are bounded, because clients decide their size. Bounded lists come with their full count.
* Logs are read in a few threads (`log_threads`). The event loop is never blocked by a page.
* An error in the dashboard never ends the broker.
"""
