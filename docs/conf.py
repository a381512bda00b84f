"""Sphinx configuration: the pages of this folder as a site, built by `make docs`."""

import re
from importlib.metadata import version as version_of
from pathlib import Path

project = "pipeline-broker"
author = "the pipeline-broker maintainers"
version = release = version_of("pipeline-broker")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # links to headings use GitHub's anchors, so that pages read well there too
exclude_patterns = ["build"]
html_theme = "furo"
html_title = project
html_copy_source = False
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types of annotations have no page of their own
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": "BaseException,OSError,int,tuple"}
autodoc_typehints_format = "short"
default_role = "code"  # docstrings write `name`, as in Markdown
suppress_warnings = ["misc.highlighting_failure"]  # blocks of `console` show output beside commands

DOCS = Path(__file__).resolve().parent
LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>\.\./[^)#\s]+)(?:#[^)\s]*)?\)")


def name_files_outside(app, docname, source):
    """Show the path of a file in the repository that is not a page; on GitHub the same link opens the file."""
    folder = (DOCS / docname).parent

    def shown(link):
        path = (folder / link["target"]).resolve()
        if path.is_relative_to(DOCS):
            return link[0]
        name = path.relative_to(DOCS.parent)
        return link["text"] if str(name) in link["text"] else f"{link['text']} (`{name}`)"

    source[0] = LINK.sub(shown, source[0])


def setup(app):
    app.connect("source-read", name_files_outside)
