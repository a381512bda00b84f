"""The HTML report of an experiment. Use `page.render`.

Rules of this package:
* A section is a function from the comparison to its markup, or to nothing if the experiment has no such part. It
  explains missing data, in one sentence, only if the reader would expect that data.
* The page is complete without scripts and without a network.
"""
