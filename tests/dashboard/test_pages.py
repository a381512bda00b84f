"""The pages in a real browser: themes, a phone's width, the keyboard, hostile records, the content security policy.

SCREENSHOTS=folder keeps a picture of each page.

Longer than most files: one browser and two brokers serve all of its tests.
"""

import json
import re
import time

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest, CreateTopicsResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from tests.apis.wire_client import WireClient
from tests.conftest import start_broker
from tests.dashboard.browsing import SECONDS_MAX

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

PAGES = (
    "/",
    "/requests",
    "/connections",
    "/store",
    "/topics",
    "/topics/hostile",
    "/groups",
    "/groups?group=reports",
    "/groups/reports",
    "/groups?group=wide",
    "/brokers",
    "/access",
    "/faults",
    "/configuration",
)
HOSTILE = (
    NewRecord(
        b"<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">", b"<b>k</b>", 1_000
    ),
    NewRecord("\u202egnirts\u202c\x00".encode(), b"bidi", 1_001, (("\u202eheader", b"<i>"),)),
    NewRecord(bytes(range(256)), b"binary", 1_002),
    NewRecord(None, b"tombstone", 1_003),
)
WIDE = 120  # more than the rows of a page
HOSTILE_CLIENT = "<script>document.title='owned'</script>\u202egnirts"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECURED = (
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms=PLAIN",
    f'listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN_MODULE} required user_alice="secret";',
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)
DASHBOARD = re.compile(r"dashboard on (\S+)")


def produce_request(records):
    data = ProduceRequest.PartitionProduceData(0, build_batch(records))
    topic = ProduceRequest.TopicProduceData(name="hostile", partition_data=[data])
    return ProduceRequest(None, -1, 9000, [topic])


def produce(client, records):
    (answered,) = client.ask(produce_request(records), ProduceResponse, 9).responses
    assert answered.partition_responses[0].error_code == 0


def fill(broker):
    """Create a topic with hostile records, an empty group with lag, and one with many partitions."""
    with WireClient(broker.host, broker.port) as client:
        wanted = CreateTopicsRequest.CreatableTopic("hostile", 1, 1)
        settings = {"max.message.bytes": "12000000", "retention.ms": "-1"}  # the records are those of 1970
        wanted.configs = [CreateTopicsRequest.CreatableTopicConfig(*setting) for setting in settings.items()]
        client.ask(CreateTopicsRequest([wanted], 5000), CreateTopicsResponse, 7)
        for records in (HOSTILE, [NewRecord(b"A" * 10_000_000, b"large", 1_004)]):
            produce(client, records)
        wide = CreateTopicsRequest.CreatableTopic("wide", WIDE, 1)
        client.ask(CreateTopicsRequest([wide], 5000), CreateTopicsResponse, 7)
        commit(client, "reports", {"hostile": 1})
        commit(client, "wide", {"hostile": 1, "wide": WIDE})


def commit(client, group, partitions):
    """Commit offset 2, or 0 in the empty topic, for the first partitions of each topic."""
    client.ask(FindCoordinatorRequest(coordinator_keys=[group]), FindCoordinatorResponse, 6)
    wanted, topics = OffsetCommitRequest.OffsetCommitRequestPartition, []
    for name, count in partitions.items():
        rows = [wanted(partition_index=n, committed_offset=0 if name == "wide" else 2) for n in range(count)]
        topics.append(OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=rows))
    answered = client.ask(OffsetCommitRequest(group_id=group, topics=topics), OffsetCommitResponse, 8).topics
    assert {each.error_code for topic in answered for each in topic.partitions} == {0}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    """Start a pipelined broker with a classic one beside it; return the link of the first."""
    folder = tmp_path_factory.mktemp("brokers")
    store = ("--store", (folder / "store").as_uri(), "--wal", "objects")
    classic = start_broker(folder / "classic", mode="classic", arguments=["--dashboard", "0", *store])
    place = DASHBOARD.search(classic.stderr)[1].removeprefix("http://").strip("/")
    pipelined = start_broker(folder / "pipelined", arguments=["--dashboard", "0", "--dashboard-beside", place])
    try:
        fill(pipelined)
        yield classic, pipelined
    finally:
        for broker in (pipelined, classic):
            broker.stop()
            broker.process.stdout.close()


@pytest.fixture(scope="module")
def link(brokers):
    return DASHBOARD.search(brokers[1].stderr)[1].rstrip("/")


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390), ("dark", 360)])
def test_every_page_fits_its_width_in_both_themes_without_errors(browser, link, theme, width):
    browser.look_like(theme, width)
    for page in PAGES:
        browser.open(link + page)
        browser.wait("return document.querySelector('main .card, main section') !== null")
        browser.run("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
        assert browser.flaws() == [], page
        assert len(browser.run("return [...document.querySelectorAll('nav a[aria-current=page]')]")) == 1, page
        assert browser.run("return document.querySelectorAll('main h1').length") == 1, page
        browser.picture(f"{page.strip('/').replace('/', '-').replace('?', '-') or 'pipeline'}-{theme}")
    ground = browser.run("return getComputedStyle(document.documentElement).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", ground)[:3])) / 3
    assert (brightness < 80) == (theme == "dark")
    assert browser.complaints() == []


def test_the_pipeline_shows_both_brokers_at_work(browser, link, brokers):
    browser.look_like("light", 1280)
    browser.open(link + "/", "return document.querySelectorAll('.brokers > section').length === 2")
    seen = "return [...document.querySelectorAll('.brokers > section')].every((each) => each.querySelector('.lane'))"
    deadline = time.monotonic() + SECONDS_MAX
    while not browser.run(seen):
        assert time.monotonic() < deadline, browser.text
        for broker in brokers:
            run_load(LoadOptions(broker.host, broker.port, 1, 8, seconds=0.3, warmup_s=0.1))
    both = "document.querySelectorAll('.brokers > section .lane').length, document.body.innerText"
    lanes, text = browser.run(f"return [{both}]")  # read at once: the page is redrawn every second

    assert "out of order" not in text
    assert text.count("responses were sent in order") == lanes
    panels = browser.run(
        "return [...document.querySelectorAll('.brokers > section > h2')].map((each) => each.innerText)"
    )
    assert ("pipelined" in panels[0], "classic" in panels[1]) == (True, True)
    assert browser.run("return document.querySelectorAll('.waterfall tbody tr').length") >= 14
    assert browser.run("return document.querySelectorAll('.u-wrap canvas').length") == 6
    browser.picture("pipeline-at-work")
    assert browser.complaints() == []


def test_hostile_records_are_text(browser, link):
    browser.look_like("light", 360)
    browser.open(f"{link}/topics/hostile", "return document.querySelectorAll('.record').length >= 5")

    assert browser.run("return document.title") == "hostile · pipeline-broker"
    assert browser.run("return document.querySelectorAll('main script, main img, .record dd b, .record i').length") == 0
    shown = browser.run("return [...document.querySelectorAll('.record .content')].map((each) => each.textContent)")
    assert HOSTILE[0].value.decode() in shown
    assert "U+202EgnirtsU+202CU+0000" in shown
    assert max(map(len, shown)) < 5_000
    isolation = "[...document.querySelectorAll('.content')].map((each) => getComputedStyle(each).unicodeBidi)"
    assert set(browser.run(f"return {isolation}")) == {"isolate"}
    assert "the beginning of 10 MB" in browser.text
    assert browser.complaints() == []


def test_the_keyboard_reaches_everything(browser, link):
    """From the skip link to the reset of a group, with Tab, letters, Enter and Escape."""
    from selenium.webdriver.common.keys import Keys

    def tab_until(script):
        for _ in range(40):
            browser.press(Keys.TAB)
            if browser.run(f"const at = document.activeElement; return {script}"):
                return
        raise AssertionError(f"Tab does not lead to {script}")

    browser.look_like("light", 1280)
    browser.open(f"{link}/groups?group=reports", "return document.querySelectorAll('main tbody tr').length === 1")
    browser.press(Keys.TAB)
    assert browser.run("return document.activeElement.className") == "skip"
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") != "none"
    tab_until("at.textContent === 'Reset offsets'")
    browser.press(Keys.ENTER)
    browser.wait("return document.querySelector('dialog[open]') !== null")
    browser.press(Keys.ESCAPE)
    browser.wait("return document.querySelector('dialog') === null")
    browser.press(Keys.ENTER)
    browser.wait("return document.querySelector('dialog[open]') !== null")
    tab_until("at.matches('button.main')")
    browser.press(Keys.ENTER)
    browser.wait("return document.querySelector('main tbody td:nth-child(3)').textContent === '0'")
    browser.open(f"{link}/topics/hostile", "return document.querySelectorAll('.record').length >= 5")
    tab_until("at.name === 'key'")
    browser.press(*"tomb", Keys.ENTER)
    browser.wait("return document.querySelectorAll('.record').length === 1")
    assert browser.complaints() == []


def test_following_a_topic_shows_new_records(browser, link, brokers):
    browser.open(f"{link}/topics/hostile", "return document.querySelectorAll('.record').length >= 5")
    browser.run("[...document.querySelectorAll('button')].find((each) => each.textContent === 'Follow').click()")
    browser.wait("return document.querySelectorAll('.record').length === 0")
    value = json.dumps({"fresh": 1}).encode()
    deadline = time.monotonic() + SECONDS_MAX
    with WireClient(brokers[1].host, brokers[1].port) as client:
        while not browser.run("return document.querySelectorAll('.record').length"):
            assert time.monotonic() < deadline, browser.text
            produce(client, [NewRecord(value, b"fresh", 2_000)])
            time.sleep(0.2)

    assert '{\n  "fresh": 1\n}' in browser.text


def test_requests_and_connections_show_clients_addresses_and_topics(browser, link, brokers):
    browser.look_like("light", 1280)
    browser.open(f"{link}/requests")
    shown = "[...document.querySelectorAll('main tbody tr')].map((each) => each.innerText)"
    deadline = time.monotonic() + SECONDS_MAX
    with WireClient(brokers[1].host, brokers[1].port, client_id=HOSTILE_CLIENT) as client:
        client.ask(ApiVersionsRequest("lib", "1"), ApiVersionsResponse, 3)
        port = client.socket.getsockname()[1]
        while not any("hostile" in row for row in browser.run(f"return {shown}")):
            assert time.monotonic() < deadline, browser.text
            produce(client, [NewRecord(b"who", None, 2_003)])
            time.sleep(0.2)
        (row, *_) = [row for row in browser.run(f"return {shown}") if "hostile" in row]
        assert "<script>document.title='owned'</script>U+202Egnirts" in row
        assert f"127.0.0.1:{port}" in row
        browser.picture("requests-named")
        browser.open(f"{link}/connections", "return document.querySelector('main tbody tr') !== null")
        (row,) = [row for row in browser.run(f"return {shown}") if f"127.0.0.1:{port}" in row]
        assert ("<script>" in row, "hostile" in row) == (True, True)
        browser.picture("connections-named")
    assert browser.run("return document.title") == "Connections · pipeline-broker"
    assert browser.complaints() == []


@pytest.fixture
def secured(tmp_path, browser):
    """Start a broker with SASL and an authorizer."""
    broker = start_broker(tmp_path, arguments=["--dashboard", "0"], settings=SECURED)
    yield broker
    browser.driver.get("about:blank")  # an open page would send requests to the stopped broker
    broker.stop()
    broker.process.stdout.close()


def log_in(client, user, password):
    client.ask(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, 1)
    token = f"\0{user}\0{password}".encode()
    return client.ask(SaslAuthenticateRequest(token), SaslAuthenticateResponse, 2).error_code


def test_refusals_appear_on_the_open_access_page_as_text(browser, secured):
    page = DASHBOARD.search(secured.stderr)[1].replace("/?", "/access?")
    browser.look_like("light", 1280)
    browser.open(page, "return document.body.innerText.includes('No denied requests.')")
    assert "No failed logins." in browser.text

    for user in (HOSTILE_CLIENT, *map("guess-{}".format, range(10))):
        with WireClient(secured.host, secured.port) as client:
            assert log_in(client, user, "wrong") == ErrorCode.SASL_AUTHENTICATION_FAILED
    with WireClient(secured.host, secured.port) as client:
        assert log_in(client, "alice", "secret") == 0
        topic = MetadataRequest.MetadataRequestTopic(name=HOSTILE_CLIENT)
        client.ask(MetadataRequest([topic], allow_auto_topic_creation=False), MetadataResponse, 9)
    with WireClient(secured.host, secured.port) as client:
        log_in(client, HOSTILE_CLIENT, "wrong")

    shown = "[...document.querySelectorAll('main tbody tr')].map((each) => each.innerText.replaceAll('\\t', ' '))"
    browser.wait(f"return {shown}.some((row) => row.includes('User:alice')) && {shown}.some((row) => / 12$/.test(row))")
    rows = browser.run(f"return {shown}")
    seen = "<script>document.title='owned'</script>U+202Egnirts"
    (denied,) = [row for row in rows if "User:alice" in row]
    assert denied.startswith(f"User:alice 127.0.0.1 DESCRIBE Topic {seen} 1 ")
    (failed,) = [row for row in rows if f"PLAIN {seen}" in row]
    assert failed.startswith(f"127.0.0.1 SASL_PLAINTEXT PLAIN {seen} ")
    (older,) = [row for row in rows if "older names" in row]
    assert " 7 " in older
    assert browser.run("return document.title") == "Access · pipeline-broker"
    assert browser.run("return document.documentElement.scrollWidth") <= 1280
    browser.picture("access-refused")
    browser.look_like("dark", 360)
    assert browser.run("return document.documentElement.scrollWidth") <= 360
    assert browser.complaints() == []


def test_lag_has_a_bar_and_a_chart_of_its_history(browser, link):
    browser.look_like("light", 1280)
    browser.open(f"{link}/groups", "return document.querySelector('main tbody .barred i') !== null")
    browser.wait("return document.querySelector('.u-wrap canvas') !== null")
    length = browser.run("return document.querySelector('main tbody .barred i').style.getPropertyValue('--length')")
    assert 0 <= float(length.rstrip("%")) <= 100
    browser.picture("groups-lag")
    browser.open(f"{link}/groups?group=reports", "return document.querySelector('.u-wrap canvas') !== null")
    assert browser.complaints() == []


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("/nix", "this address does not exist"),
        ("/groups?group=nix", "the group does not exist"),
        ("/topics/nix", "the topic does not exist"),
        ("/api/topics/nix", "the topic does not exist"),
    ],
)
def test_unknown_addresses_are_error_pages(browser, link, page, said):
    browser.open(link + page, f"return document.body.innerText.includes({said!r})")

    assert "{" not in browser.text
    assert browser.run("return document.querySelectorAll('main h1').length") == 1
    assert browser.run("return document.querySelector('main a') !== null")
    browser.driver.get_log("browser")  # the answer's status, which the browser writes down itself


KEEP_WHAT_LEAVES = """
    window.left = [];
    URL.createObjectURL = (blob) => { blob.text().then((text) => window.left.push([blob.type, text])); return "#"; };
    navigator.clipboard.writeText = async (text) => { window.left.push(["clipboard", text]); };
"""


def test_records_are_copied_and_downloaded_as_json_lines_and_csv(browser, link, brokers):
    with WireClient(brokers[1].host, brokers[1].port) as client:
        produce(client, [NewRecord(b'{"total": 1}', b"=1+1", 2_010, (("h", b"x"),))])
    browser.open(f"{link}/topics/hostile?key=%3D1", "return document.querySelectorAll('.record').length === 1")
    browser.run(KEEP_WHAT_LEAVES)
    for label in ("Copy", "Download JSONL", "Download CSV"):
        browser.press_button(label)
    browser.wait("return window.left.length === 3")
    left = dict(browser.run("return window.left"))
    line = json.loads(left["application/x-ndjson"])

    assert left["application/x-ndjson"] == f"{left['clipboard']}\n"
    assert (line["topic"], line["key"], line["value"]) == ("hostile", "=1+1", '{"total": 1}')
    head, row, end = left["text/csv"].split("\r\n")
    assert (head, end) == ("topic,partition,offset,timestamp,key,value,headers", "")
    assert row.startswith(f'hostile,0,{line["offset"]},2010,\'=1+1,"{{""total"": 1}}",')
    assert browser.complaints() == []


def test_the_newest_record_is_first_and_the_address_contains_the_search(browser, link):
    places = "[...document.querySelectorAll('.record .place b:nth-of-type(2)')]"
    browser.open(f"{link}/topics/hostile", "return document.querySelectorAll('.record').length >= 5")
    shown = browser.run(f"return {places}.map((each) => Number(each.textContent))")
    assert shown == sorted(shown, reverse=True)
    browser.run("document.querySelector('input[name=key]').value = 'tomb'")
    browser.run("document.querySelector('form.filters button.main').click()")
    browser.wait("return document.querySelectorAll('.record').length === 1")
    assert browser.run("return location.search") == "?key=tomb"
    assert "This is the beginning of the topic." in browser.text
    browser.open(f"{link}/topics/hostile?key=tomb", "return document.querySelectorAll('.record').length === 1")
    browser.open(f"{link}/topics/hostile?json=a..b", "return document.querySelector('.error') !== null")
    assert "a JSON filter must be field, field=text" in browser.text
    assert [each for each in browser.complaints() if "400" not in each] == []  # the browser logs refusals itself


def test_redrawing_keeps_the_focus(browser, link):
    browser.open(f"{link}/groups", "return document.querySelector('main tbody a') !== null")
    browser.run("const link = document.querySelector('main tbody a'); link.isOld = true; link.focus()")
    browser.wait("return !document.querySelector('main tbody a').isOld")
    assert browser.run("return document.activeElement === document.querySelector('main tbody a')")


def press(browser, label):
    """Press the button with a label."""
    script = "const found = [...document.querySelectorAll('main button')].find((each) => "
    browser.run(script + "[each.textContent, each.ariaLabel].includes(arguments[0])); found.click()", label)


def choose(browser, **fields):
    """Fill in fields of the form for a rule."""
    for field, value in fields.items():
        browser.run(
            "const [name, value] = arguments; const found = document.querySelector(`form [name=${name}]`);"
            "found.value = value; found.dispatchEvent(new Event('input', { bubbles: true }))",
            field,
            value,
        )


def test_a_rule_is_added_holds_a_request_and_releases_it(browser, link, brokers):
    """Includes hostile texts and an invalid rule; the test removes all rules at its end."""
    browser.look_like("light", 1280)
    browser.open(f"{link}/faults", "return document.querySelector('form [name=client_id]') !== null")
    try:
        choose(browser, api="ListTransactions", client_id=HOSTILE_CLIENT, frequency="p", p="0.5", effect="delay")
        press(browser, "Add the rule")
        browser.wait("return document.querySelectorAll('.rule').length === 1")
        choose(browser, partition="x")
        press(browser, "Add the rule")
        browser.wait("return document.body.innerText.includes(\"partition needs a whole number, not 'x'\")")
        choose(browser, api="Produce", client_id="", partition="", frequency="nth", n="2", effect="pause")
        choose(browser, topic="hostile", stage="response_order")
        assert "api=Produce topic=hostile nth=2 pause=response_order" in browser.text
        press(browser, "Add the rule")
        browser.wait("return document.querySelectorAll('.rule').length === 2")
        with WireClient(brokers[1].host, brokers[1].port) as client:
            produce(client, [NewRecord(b"first", None, 2_001)])
            browser.wait("return document.querySelectorAll('.rule')[1].innerText.includes('struck 0 of 1')")
            client.send(produce_request([NewRecord(b"second", None, 2_002)]), 9)
            browser.wait("return document.querySelectorAll('.rule .held tbody tr').length === 1")
            assert "on release" in browser.text
            for theme, width in (("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)):
                browser.look_like(theme, width)
                assert browser.run("return document.documentElement.scrollWidth") <= width
                browser.picture(f"faults-at-work-{theme}-{width}")
            press(browser, "Release everything that rule 2 holds")
            assert client.expect(ProduceResponse, 9).responses[0].partition_responses[0].error_code == 0
        browser.wait("return document.querySelectorAll('.rule .held tbody tr').length === 0")
        assert browser.run("return document.title") == "Fault rules · pipeline-broker"
        assert browser.run("return document.querySelectorAll('main script, main .rule i').length") == 0
        assert "\u202e" not in browser.run("return document.querySelector('.rules').textContent")
    finally:
        press(browser, "Remove all")
        browser.wait("return document.querySelectorAll('.rule').length === 0")
    assert [each for each in browser.complaints() if "409" not in each] == []  # the browser logs refusals itself


def test_a_topic_is_created_filled_and_deleted(browser, link):
    browser.open(link + "/topics")
    browser.press_button("Create a topic")
    browser.fill_in(name="made", partitions="2", settings="retention.ms=1000\ncleanup.policy=compact")
    browser.press_button("Create")
    browser.wait("return location.pathname === '/topics/made' && document.querySelector('main h1') !== null")
    browser.wait("return document.body.innerText.includes('The topic has no records.')")
    browser.press_button("Produce a record")
    browser.fill_in(key="=k", value='{"a": 1}', headers="h=x")
    browser.press_button("Produce")
    browser.wait("return document.querySelector('.record .content')?.textContent === '=k'")
    browser.press_button("Delete the topic")
    browser.press_button("Delete the topic")
    browser.wait("return document.querySelector('dialog .error').textContent === '\"\" is not the name of the topic'")
    browser.fill_in(**{"type its name": "made"})
    browser.press_button("Delete the topic")
    browser.wait("return location.pathname === '/topics' && document.querySelector('main table') !== null")
    assert "made" not in browser.text
    assert browser.complaints() == []


def test_the_topics_page_shows_the_free_disk_space(browser, link):
    browser.open(link + "/topics")
    said = browser.wait("return document.querySelector('main .lead').textContent")
    assert re.fullmatch(r"[0-9.,]+\s.?B of [0-9.,]+\s.?B are free on the disk of the data directory\.", said)


def test_a_refusal_is_shown_in_the_dialog(browser, link):
    browser.open(link + "/topics")
    browser.press_button("Create a topic")
    browser.fill_in(name="hostile")
    browser.press_button("Create")
    browser.wait("return document.querySelector('dialog .error')?.textContent.startsWith('TOPIC_ALREADY_EXISTS')")
    browser.press_button("Cancel")
    browser.wait("return document.querySelector('dialog') === null")
    browser.driver.get_log("browser")  # the answer's status, which the browser writes down itself


def test_a_table_stays_sorted_by_the_pressed_head(browser, link):
    browser.open(link + "/topics/hostile")
    browser.wait("return document.querySelector('details table') !== null")
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    browser.press_button("size")
    assert browser.run("return document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "descending"
    browser.press_button("size")
    assert browser.run("return document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "ascending"


def test_a_setting_of_a_topic_is_changed(browser, link):
    browser.open(link + "/topics/hostile")
    browser.wait("return document.querySelector('[aria-label=\"Change retention.ms\"]') !== null")
    browser.run("document.querySelector('[aria-label=\"Change retention.ms\"]').click()")
    browser.fill_in(value="86400000")
    browser.run("window.isBefore = true")
    browser.press_button("Change")
    browser.wait("return !window.isBefore && document.querySelector('main')?.textContent.includes('86400000')")


def test_the_store_of_a_broker_is_shown_with_its_journal_and_its_lease(brokers, browser):
    address = DASHBOARD.search(brokers[0].stderr)[1].rstrip("/")
    browser.open(f"{address}/store", "return document.body.innerText.includes('generation 1')")
    for said in ("available", "not archived", "held, renewed", "create", "at most"):
        assert said in browser.text
    assert browser.complaints() == []


def test_a_table_has_pages_that_a_filter_and_a_sort_start_again(browser, link):
    shown = "document.querySelector('main table')?.querySelectorAll('tbody tr').length"
    pages = "document.querySelector('.pages').textContent"
    browser.open(f"{link}/groups?group=wide", f"return {shown} === 100")
    assert "1\u2013100 of 121 rows" in browser.text
    browser.press_button("Next")
    browser.wait(f"return {shown} === 21 && {pages}.startsWith('101\u2013121 of 121 rows')")
    assert browser.run("return [...document.querySelectorAll('.pages button')].at(-1).disabled")
    browser.run("document.querySelector('main tbody tr').isOld = true")
    browser.wait("return !document.querySelector('main tbody tr').isOld")
    assert browser.run(f"return {pages}").startswith("101\u2013121")
    browser.press_button("partition")
    assert browser.run(f"return {pages}").startswith("1\u2013100")
    browser.run("document.querySelector('input[type=search]').focus()")
    browser.press(*"HOST")
    browser.wait(f"return {shown} === 1 && document.querySelector('.pages') === null")
    browser.press(*"x")
    browser.wait("return document.body.innerText.includes('No matching topics.')")
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_every_choice_of_a_fault_rule_is_shown_whole(browser, link, width):
    browser.look_like("light", width)
    browser.open(f"{link}/faults", "return document.querySelector('form [name=client_id]') !== null")
    for effect in browser.run("return [...document.querySelector('[name=effect]').options].map((each) => each.value)"):
        choose(browser, effect=effect)
        assert browser.flaws() == [], effect
    choose(browser, about="disk")
    for effect in browser.run(
        "return [...document.querySelector('[name=file_effect]').options].map((each) => each.value)"
    ):
        choose(browser, file_effect=effect)
        assert browser.flaws() == [], effect


def test_a_page_without_its_broker_says_so_where_the_reader_looks(browser, tmp_path):
    broker = start_broker(tmp_path, arguments=["--dashboard", "0"])
    try:
        browser.look_like("light", 390)
        page = DASHBOARD.search(broker.stderr)[1]
        browser.open(page, "return document.querySelector('.depths') !== null && document.body.scrollHeight > 1000")
    finally:
        broker.stop()
        broker.process.stdout.close()
    said = "document.getElementById('connection-state')"
    browser.wait(f"return {said}.textContent.startsWith('The page has no connection to the broker and tries again.')")
    assert browser.run(f"return scrollY === 0 && {said}.getBoundingClientRect().bottom <= innerHeight")
    browser.driver.get("about:blank")
    browser.driver.get_log("browser")  # the lost connections, which the browser writes down itself
