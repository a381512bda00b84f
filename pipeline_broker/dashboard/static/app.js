// The entry point: imports the module of the page, which fills the main element.

import { element, replace } from "./dom.js";
import { ask, repeat } from "./live.js";

const pages = {
  "/": ["./pipeline.js", "Pipeline"],
  "/requests": ["./requests.js", "Requests"],
  "/connections": ["./connections.js", "Connections"],
  "/brokers": ["./brokers.js", "Brokers"],
  "/store": ["./store.js", "Store"],
  "/topics": ["./topics.js", "Topics"],
  "/groups": ["./groups.js", "Groups"],
  "/schemas": ["./schemas.js", "Schemas"],
  "/access": ["./access.js", "Access"],
  "/faults": ["./faults.js", "Fault rules"],
  "/configuration": ["./configuration.js", "Configuration"],
};

// Every page shows what stops all writes, such as a full disk.
async function showObstacle() {
  const { obstacle } = await ask("/api/broker");
  document.getElementById("obstacle").textContent = obstacle ? `The broker refuses all writes: ${obstacle}` : "";
}

async function start() {
  const path = location.pathname;
  const section = Object.keys(pages).filter((each) => path === each || path.startsWith(`${each}/`)).pop() || "/";
  const isTopic = section === "/topics" && path !== "/topics";
  const [module, title] = isTopic ? ["./topic.js", decodeURIComponent(path.slice("/topics/".length))] : pages[section];
  document.title = `${title} · pipeline-broker`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === section) link.setAttribute("aria-current", "page");
  }
  const main = document.getElementById("content");
  try {
    const broker = await ask("/api/broker");
    const later = broker.topics_synced_later ? ` (topics with a weaker flush policy: ${broker.topics_synced_later})` : "";
    document.getElementById("identity").textContent = `${broker.mode}, flush ${broker.flush}${later}${broker.is_member ? `, node ${broker.node}` : ""}${broker.user === null ? "" : `, user ${broker.user}${broker.is_read_only ? " (read-only)" : ""}`}`;
    document.querySelector('nav a[href="/brokers"]').hidden = !broker.is_member;
    document.querySelector('nav a[href="/schemas"]').hidden = !broker.has_registry;
    const { show } = await import(module);
    await show(main, broker, title);
  } catch (error) {
    replace(main, element("h1", {}, title), element("p", { class: "error" }, `Cannot show this page: ${error.message}`),
      path + location.search === section ? null : element("p", {}, element("a", { href: section }, `All ${pages[section][1].toLowerCase()}`)));
  }
}

start();
repeat(10, showObstacle);
