// Streams of events, and questions that are asked again while the page is seen.

const state = document.getElementById("connection-state");

function tell(text) {
  if (state.textContent !== text) state.textContent = text;
}

export function listen(path, handlers) {
  const source = new EventSource(path);
  source.onopen = () => tell("");
  source.onerror = () => tell("No connection to the broker; trying again.");
  for (const [name, handler] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => {
      tell("");
      handler(JSON.parse(event.data));
    });
  }
  source.addEventListener("end", (event) => {
    source.close();
    tell(JSON.parse(event.data).reason);
  });
  return source;
}

export async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    tell("No connection to the broker; trying again.");
    throw new Error("the broker does not answer");
  }
  tell("");
  const content = await response.json();
  if (!response.ok) throw new Error(content.error || `the broker answers ${response.status}`);
  return content;
}

export function change(path, content) {
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content) });
}

// Ask again every so often, one question at a time, and only while somebody can see the answer.
export function repeat(seconds, question) {
  async function turn() {
    if (!document.hidden) {
      try {
        await question();
      } catch (error) {
        tell(error.message);
      }
    }
    setTimeout(turn, seconds * 1000);
  }
  turn();
}
