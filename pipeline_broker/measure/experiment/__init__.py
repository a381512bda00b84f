"""The experiment of `compare`: drives modes of the broker, and Apache Kafka, with equal loads in paired, random rounds.

Rules of the package:

* Brokers run side by side and are driven one at a time. They are always stopped, and their data is always removed.
* Each group of runs starts new brokers of this project, so each round is an independent sample.
* Each run leaves a folder with its raw rows. Its `run.json` is written last, so a folder without it is incomplete.
* Figures come from untraced runs. An answer with an error code fails the experiment.
* The tables show figures and intervals. Conclusions are drawn by `spark_analysis` alone, because among many loads some
  differ by chance.
* `factors`, `modes` and `runs` contain data only. `budget`, `intervals`, `plan`, `rounds` and `sweep_plan` compute
  without I/O.
"""
