"""Access, users, quotas and schemas are changed in a real browser, as an admin and as a read-only user."""

import base64
import json
import re
import time

import pytest

from tests.conftest import start_broker
from tests.dashboard.test_pages import DASHBOARD, HOSTILE_CLIENT

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

PAGE_SECONDS = 2  # between two requests of a page
AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SEEN = "<script>document.title='owned'</script>U+202Egnirts"
PROPER = (
    "[...document.querySelectorAll('dialog :is(input, select, textarea)')].every((each) => each.labels.length === 1)"
)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Start a broker with rules, a registry and users; return the part of its address after the credentials."""
    folder = tmp_path_factory.mktemp("administered")
    users = folder / "users"
    users.write_text("ada:secret\neve:secret\n[read-only]\nbob:secret\n")
    users.chmod(0o600)
    arguments = ["--dashboard", "0", "--schema-registry", "0", "--http-users", str(users)]
    broker = start_broker(folder, arguments=arguments, settings=[AUTHORIZER, "super.users=User:ada;User:bob"])
    try:
        yield DASHBOARD.search(broker.stderr)[1].removeprefix("http://").rstrip("/")
    finally:
        broker.stop()
        broker.process.stdout.close()


@pytest.fixture
def link(browser, address):
    """Log ada in, and return the link without credentials."""
    return log_in(browser, address, "ada")


def log_in(browser, address, user):
    browser.look_like("light", 1280)
    browser.driver.execute_cdp_cmd("Network.enable", {})
    headers = {"Authorization": f"Basic {base64.b64encode(f'{user}:secret'.encode()).decode()}"}
    browser.driver.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": headers})
    browser.open(f"http://{address}/")
    browser.wait(f"return document.getElementById('identity').textContent.includes('user {user}')")
    return f"http://{address}"


def rows(browser, title):
    """Return the texts of the rows below a heading."""
    return browser.run(
        "const card = [...document.querySelectorAll('.card')].find((each) => each.innerText.startsWith(arguments[0]));"
        "return [...card.querySelectorAll('tbody tr')].map((each) => each.innerText.replace(/\\s+/g, ' '))",
        title,
    )


def act(browser, label, submit, **fields):
    """Open a dialog, fill it in and submit it; wait until the page is loaded again."""
    browser.press_button(label)
    browser.wait("return document.querySelector('dialog[open]') !== null")
    assert browser.run(f"return {PROPER} && document.querySelector('dialog h2').id === 'dialog-title'")
    browser.fill_in(**fields)
    browser.run("window.isOld = true")
    browser.press_button(submit)
    browser.wait("return window.isOld === undefined && document.querySelector('main .card') !== null")


def test_a_rule_with_a_hostile_name_is_added_and_deleted(browser, link):
    browser.open(f"{link}/access", "return document.body.innerText.includes('No ACLs.')")
    act(browser, "Add an ACL", "Add", principal="User:carol", name=HOSTILE_CLIENT, pattern="PREFIXED")
    assert rows(browser, "ACLs") == [f"User:carol ALLOW ALL TOPIC {SEEN} PREFIXED * Delete"]
    act(browser, "Add an ACL", "Add", principal="User:carol", resource="CLUSTER", operation="ALTER", permission="DENY")
    assert "User:carol DENY ALTER CLUSTER kafka-cluster LITERAL * Delete" in rows(browser, "ACLs")
    browser.picture("access-changed")
    act(browser, "Delete: User:carol DENY ALTER", "Delete")
    act(browser, "Delete: User:carol ALLOW ALL", "Delete")
    assert "No ACLs." in browser.text
    assert browser.run("return document.title") == "Access · pipeline-broker"
    assert browser.complaints() == []


def test_a_user_is_created_and_deleted_with_the_keyboard(browser, link):
    from selenium.webdriver.common.keys import Keys

    def tab_until(script):
        for _ in range(60):
            browser.press(Keys.TAB)
            if browser.run(f"const at = document.activeElement; return {script}"):
                return
        raise AssertionError(f"Tab does not lead to {script}")

    browser.open(f"{link}/access", "return document.body.innerText.includes('No users with SCRAM')")
    tab_until("at.textContent === 'Create a user'")
    browser.press(Keys.ENTER)
    browser.wait("return document.activeElement.closest('dialog') !== null")
    browser.press(*"carol", Keys.TAB, Keys.TAB, *"one", Keys.TAB, *"two", Keys.ENTER)
    browser.wait("return document.querySelector('dialog .error').textContent === 'the two passwords differ'")
    browser.press(Keys.BACKSPACE, Keys.BACKSPACE, Keys.BACKSPACE, *"one", Keys.ENTER)
    browser.wait("return document.querySelector('[aria-label^=\"Delete: carol SCRAM-SHA-256\"]') !== null")
    assert rows(browser, "Users") == ["carol SCRAM-SHA-256 4096 Set password Delete"]
    tab_until("at.ariaLabel?.startsWith('Delete: carol')")
    browser.press(Keys.ENTER)
    browser.wait("return document.activeElement.closest('dialog') !== null")
    tab_until("at.matches('button.danger')") if not browser.run(
        "return document.activeElement.matches('button.danger')"
    ) else None
    browser.press(Keys.ENTER)
    browser.wait("return document.body.innerText.includes('No users with SCRAM')")
    assert browser.complaints() == []


def test_a_quota_is_set_changed_and_removed(browser, link):
    browser.open(f"{link}/access", "return document.body.innerText.includes('No quotas.')")
    act(browser, "Set a quota", "Set", user=HOSTILE_CLIENT, **{"client-id": "*", "value": "1024"})
    (row,) = rows(browser, "Quotas")
    assert f"user {SEEN}" in row
    assert "client-id (default)" in row
    assert "producer_byte_rate 1024 bytes/s" in row
    browser.run("[...document.querySelectorAll('button')].find((each) => each.textContent === 'Change').click()")
    browser.fill_in(value="2048")
    browser.press_button("Set")
    browser.wait("return document.body.innerText.includes('2048')")
    browser.run("[...document.querySelectorAll('button')].find((each) => each.textContent === 'Remove').click()")
    browser.press_button("Remove")
    browser.wait("return document.body.innerText.includes('No quotas.')")
    assert browser.complaints() == []


def test_a_schema_is_registered_refused_and_deleted_permanently(browser, link):
    schema = json.dumps({"type": "record", "name": "R", "doc": "<b>bold</b>", "fields": []})
    browser.open(f"{link}/schemas", "return document.body.innerText.includes('No subjects yet.')")
    act(browser, "Register a schema", "Register", subject="a/<i>-value", schema=schema)
    browser.wait("return document.body.innerText.includes('version 1, id 1, AVRO')")
    assert browser.run("return document.querySelectorAll('main .content b, main i').length") == 0
    assert '"doc": "<b>bold</b>"' in browser.text
    browser.press_button("Register a version")
    text = browser.run("return document.querySelector('dialog textarea').value")
    assert json.loads(text) == json.loads(schema)
    assert browser.run("return document.querySelector('dialog textarea').clientHeight") >= 300
    browser.fill_in(schema='"int"')
    browser.press_button("Register")
    browser.wait("return document.querySelector('dialog .error')?.textContent.includes('incompatible')")
    browser.press_button("Cancel")
    act(browser, "Set compatibility", "Set", **{"new schemas must be": "NONE"})
    browser.wait("return document.body.innerText.includes('NONE compatible')")
    act(browser, "Register a version", "Register", schema='"int"')
    browser.wait("return document.body.innerText.includes('version 2, id 2, AVRO')")
    act(browser, "Delete: version 1", "Delete")
    browser.wait("return document.body.innerText.includes('version 1, id 1, AVRO, deleted')")
    act(browser, "Delete the subject", "Delete")
    act(browser, "Delete the subject permanently", "Delete permanently")
    browser.wait("return location.search === '' && document.body.innerText.includes('No subjects yet.')")
    assert [each for each in browser.complaints() if "409" not in each and "404" not in each] == []


def test_a_read_only_user_sees_everything_and_no_enabled_change(browser, address):
    link = log_in(browser, address, "bob")
    for page in ("/access", "/schemas", "/topics", "/configuration", "/faults"):
        browser.open(link + page, "return document.querySelector('main .card') !== null")
        browser.wait("return document.querySelector('#identity').textContent.endsWith('user bob (read-only)')")
        enabled = browser.run(
            "return [...document.querySelectorAll('main button:enabled:not(.sort, .pages button)')]"
            ".map((each) => each.textContent)"
        )
        assert enabled == [], page
    assert browser.complaints() == []


def test_a_page_without_the_right_says_which_is_missing_and_asks_no_more(browser, address):
    link = log_in(browser, address, "eve")
    for page in ("/", "/requests", "/connections", "/store", "/faults", "/configuration", "/schemas", "/topics/t"):
        browser.open(link + page, "return document.querySelector('main .error') !== null")
        assert re.search(r"Cannot show this page: User:eve needs \w+ on the (cluster|topic \S+)", browser.text), page
        assert browser.run("return document.querySelectorAll('main h1').length") == 1, page
    asked = "return performance.getEntriesByType('resource').filter((each) => each.name.includes('connections')).length"
    browser.open(f"{link}/connections", "return document.querySelector('main .error') !== null")
    before = browser.run(asked)
    time.sleep(PAGE_SECONDS + 1)
    assert browser.run(asked) == before
    browser.driver.get_log("browser")  # the answers' status, which the browser writes down itself


LONG = "customer-payments.transactions.enriched.v2.eu-central-1.by-customer-id." + "x" * 170
BROKEN = """
    const words = [...document.querySelectorAll(':is(td, th) .name')].flatMap((each) => [...each.childNodes])
        .filter((node) => node.nodeType === Node.TEXT_NODE && node.length < 16 && !node.data.includes('-'));
    const all = document.createRange();
    const lines = (node) => { all.selectNode(node); return all.getClientRects().length; };
    return words.filter((node) => lines(node) > 1).map((node) => node.data);
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_long_names_fold_and_short_words_stay_whole(browser, link, width):
    browser.open(f"{link}/topics", "return document.querySelector('main .card') !== null")
    browser.press_button("Create a topic")
    browser.fill_in(name=LONG)
    browser.press_button("Create")
    browser.wait(
        "return location.pathname !== '/topics' || document.querySelector('dialog .error')?.textContent !== ''"
    )
    browser.open(f"{link}/access", "return document.querySelector('main .card') !== null")
    act(browser, "Add an ACL", "Add", principal=f"User:{LONG}", name=LONG, operation="ALTER_CONFIGS")
    browser.look_like("dark", width)
    try:
        for page in ("/topics", f"/topics/{LONG}", "/access", "/configuration"):
            browser.open(link + page, "return document.querySelector('main .card') !== null")
            browser.wait("return document.querySelector(':is(td, th) .name') !== null || location.pathname.length > 20")
            assert browser.flaws() == [], page
            assert browser.run(BROKEN) == [], page
            browser.picture(f"long-names-{page.strip('/').partition('/')[0]}-{width}")
    finally:
        browser.look_like("light", 1280)
        browser.open(f"{link}/access", "return document.querySelector('main .card') !== null")
        act(browser, f"Delete: User:{LONG} ALLOW ALTER_CONFIGS", "Delete")
    browser.driver.get_log("browser")  # the status of the second creation, which the browser writes down itself
