// Event streams, and requests that repeat while the page is visible.

import { element } from "./dom.js";

const FORBIDDEN = 403;
const LOST = "The page has no connection to the broker and tries again. It shows the last data that it received.";
const state = document.getElementById("connection-state");

function showState(text) {
  if (state.textContent !== text) state.textContent = text;
}

// The principal lacks a right. The page does not ask again, because each refusal counts as a denial.
class RefusedError extends Error {}

// No response arrived; the page says so already.
class LostError extends Error {}

function showRefusal(reason) {
  const main = document.getElementById("content");
  const title = main.querySelector("h1");
  main.replaceChildren(...(title ? [title] : []), element("p", { class: "error", role: "alert" }, `Cannot show this page: ${reason}`));
}

export function listen(path, handlers) {
  const source = new EventSource(location.origin + path);
  source.onopen = () => showState("");
  source.onerror = async () => {
    showState(LOST);
    if (source.readyState !== EventSource.CLOSED) return;
    const response = await fetch(location.origin + path); // for the reason, which an EventSource does not show
    showState("");
    if (response.ok) await response.body.cancel();
    else (response.status === FORBIDDEN ? showRefusal : showState)((await response.json()).error);
  };
  for (const [name, handler] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => {
      showState("");
      handler(JSON.parse(event.data));
    });
  }
  source.addEventListener("end", (event) => {
    source.close();
    showState(JSON.parse(event.data).reason);
  });
  return source;
}

export async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(location.origin + path, options); // without the credentials that an address may contain
  } catch {
    showState(LOST);
    throw new LostError("the page has no connection to the broker");
  }
  showState("");
  const content = await response.json();
  if (!response.ok) throw new (response.status === FORBIDDEN ? RefusedError : Error)(content.error || `the broker answered with HTTP status ${response.status}`);
  return content;
}

export function change(path, content) {
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content) });
}

// Repeat a request, one at a time, and only while the page is visible.
export function repeat(seconds, question) {
  async function turn() {
    if (!document.hidden) {
      try {
        await question();
      } catch (error) {
        if (error instanceof RefusedError) {
          showRefusal(error.message);
          return;
        }
        if (!(error instanceof LostError)) showState(error.message);
      }
    }
    setTimeout(turn, seconds * 1000);
  }
  turn();
}
