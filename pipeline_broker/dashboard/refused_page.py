"""Refusals as HTML pages for browsers.

The page has no script: an unauthorized client receives none.
"""

from __future__ import annotations

import html
import http
import json

import attrs

from pipeline_broker.web.messages import Answer, HttpRequest

__all__ = ["as_page"]

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · pipeline-broker</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/style.css">
</head>
<body>
<main>
<h1>{title}</h1>
<p class="lead">{reason}</p>
<p><a href="/">Request pipeline</a>, <a href="/topics">topics</a>, <a href="/groups">groups</a></p>
</main>
</body>
</html>
"""


def as_page(request: HttpRequest, answer: Answer) -> Answer:
    if answer.status < http.HTTPStatus.BAD_REQUEST or "text/html" not in request.headers.get("accept", ""):
        return answer
    title, reason = html.escape(answer.status.phrase), html.escape(json.loads(answer.body)["error"])
    body = PAGE.format(title=title, reason=reason).encode()
    return attrs.evolve(answer, body=body, content_type="text/html; charset=utf-8")
