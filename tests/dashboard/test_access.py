"""The dashboard refuses foreign Hosts and Origins, and requests without its token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.dashboard.access import Access
from pipeline_broker.dashboard.routes import PAGES, find_route, methods_of
from pipeline_broker.web.hosts import is_loopback
from pipeline_broker.web.messages import BadRequestError, HttpRequest, event
from tests.drawn import drawn, measured

PORT = 8080
OWN = "127.0.0.1:8080"


def request(method="GET", path="/", query=None, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpRequest(method=method, path=path, query=query or {}, headers=named)


def status(access, asked, *, is_page=False):
    refused = access.check(asked, is_page=is_page)
    return 200 if refused is None else int(refused.status)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (OWN, 200),
        ("localhost:8080", 200),
        ("LOCALHOST:8080", 200),
        ("[::1]:8080", 200),
        ("127.0.0.2:8080", 200),
        ("", 403),
        ("127.0.0.1", 403),
        ("127.0.0.1:8081", 403),
        ("evil.test:8080", 403),
        ("localhost.evil.test:8080", 403),
        ("127.0.0.1.evil.test:8080", 403),
        ("10.0.0.1:8080", 403),
        ("127.0.0.1:8080:8080", 403),
        ("evil.test@127.0.0.1:8080", 403),
        ("127.0.0.1:8080, evil.test", 403),
        ("[::1]", 403),
    ],
)
def test_on_loopback_only_local_names_are_valid_hosts(host, expected):
    assert status(Access(host="127.0.0.1", port=PORT), request(host=host)) == expected


def test_a_wildcard_address_accepts_every_address_but_no_name():
    access = Access(host="0.0.0.0", port=PORT)

    assert status(access, request(host="10.1.2.3:8080")) == 200
    assert status(access, request(host="evil.test:8080")) == 403
    assert status(Access(host="kafka.lan", port=80), request(host="kafka.lan")) == 200


@given(origin=st.text(max_size=40), method=st.sampled_from(["GET", "HEAD", "POST", "PUT"]))
def test_foreign_origins_are_refused(origin, method):
    asked = request(method, host=OWN, origin=origin, content_type="application/json")

    assert status(Access(host="127.0.0.1", port=PORT), asked) == (200 if origin == f"http://{OWN}" else 403)


@pytest.mark.parametrize(
    "origin", ["null", "http://evil.test", "http://localhost:8080", f"https://{OWN}", f"http://{OWN}/"]
)
def test_origins_that_look_like_its_own_are_foreign(origin):
    assert status(Access(host="127.0.0.1", port=PORT), request(host=OWN, origin=origin), is_page=True) == 403


def test_a_change_needs_an_origin_and_json():
    access = Access(host="127.0.0.1", port=PORT)
    own = {"host": OWN, "origin": f"http://{OWN}"}

    assert status(access, request("POST", host=OWN, content_type="application/json")) == 403
    assert status(access, request("POST", **own)) == 415
    assert status(access, request("POST", **own, content_type="text/plain")) == 415
    assert status(access, request("POST", **own, content_type="application/json; charset=utf-8")) == 200


def test_another_site_may_lead_to_a_page_and_nowhere_else():
    access = Access(host="127.0.0.1", port=PORT)
    asked = request(host=OWN, sec_fetch_site="cross-site")

    assert [status(access, asked, is_page=is_page) for is_page in (True, False)] == [200, 403]
    assert status(access, request(host=OWN, sec_fetch_site="same-origin")) == 200


def test_with_a_token_only_the_link_sets_a_cookie():
    access = Access(host="127.0.0.1", port=PORT, token="secret")
    link = access.check(request(host=OWN, path="/topics", query={"token": "secret"}), is_page=True)
    headers = dict(link.headers)
    cookie, *attributes = headers["Set-Cookie"].split("; ")

    assert (link.status, headers["Location"]) == (303, "/topics")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    assert status(access, request(host=OWN, cookie=f"other=1; {cookie}")) == 200
    assert status(access, request(host=OWN, authorization="Bearer secret")) == 200
    for headers in (
        {},
        {"cookie": cookie + "x"},
        {"authorization": "Bearer "},
        {"cookie": cookie.replace("8080", "8081")},
    ):
        assert status(access, request(host=OWN, **headers)) == 401
    assert status(access, request(host=OWN, query={"token": "secret"})) == 401
    assert status(access, request(host="evil.test:8080", cookie=cookie)) == 403


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("x.test", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host, expected):
    assert is_loopback(host) == expected


@measured(asked=0.05, refused=0.05)
@given(
    target=st.binary(max_size=60) | st.text("/.%?a=&", max_size=30).map(lambda text: b"/" + text.encode()),
    headers=st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=4),
)
def test_any_target_is_parsed_or_refused(target, headers):
    try:
        asked = HttpRequest.parse(b"GET", target, headers)
    except BadRequestError:
        drawn("refused")
        return
    drawn("asked")
    assert asked.path.startswith("/")
    route = find_route("GET", asked.path)
    assert route is None or ".." not in asked.path.split("/") or route.name != "page"


def test_a_query_is_decoded_and_has_integers():
    asked = HttpRequest.parse(b"GET", b"/a%20b?key=x%26y&limit=7&bad=-1&empty=", [(b"Host", b"h"), (b"host", b"i")])

    assert (asked.path, asked.query["key"], asked.headers["host"]) == ("/a b", "x&y", "h, i")
    assert (asked.integer("limit", 1), asked.integer("empty", 2), asked.integer("absent", 3)) == (7, 2, 3)
    with pytest.raises(BadRequestError):
        asked.integer("bad", 1)


@given(text=st.text(max_size=50))
def test_any_event_is_one_line_of_data(text):
    lines = event({"text": text}, "records").decode().split("\n")

    assert [line.partition(":")[0] for line in lines] == ["event", "data", "", ""]


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        *[("GET", path, "page") for path in sorted(PAGES)],
        ("HEAD", "/", "page"),
        ("GET", "/topics/a.b-c_1", "page"),
        ("GET", "/topics/", None),
        ("GET", "/topics/a/b", None),
        ("GET", "/topics/<script>", None),
        ("GET", "/groups/the group/2", "page"),
        ("GET", "/groups/", None),
        ("GET", "/static/app.js", "static"),
        ("GET", "/static/../service.py", None),
        ("GET", "/api/topics/t/records", "records"),
        ("POST", "/api/group/offsets", "reset_offsets"),
        ("GET", "/api/group/offsets", None),
        ("POST", "/", None),
    ],
)
def test_each_address_has_its_route(method, path, name):
    route = find_route(method, path)

    assert (None if route is None else route.name) == name


def test_the_methods_of_a_path():
    assert [methods_of(path) for path in ("/", "/api/group/offsets", "/nowhere")] == ["GET", "POST", ""]


def test_a_read_only_dashboard_still_needs_the_token():
    access = Access(host="127.0.0.1", port=PORT, token="secret", is_read_only=True)
    change = {"host": OWN, "origin": f"http://{OWN}", "content_type": "application/json"}
    assert status(access, request("POST", **change)) == 401
    assert status(access, request("POST", **change, authorization="Bearer secret")) == 403
