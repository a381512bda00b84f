// The live request path of this broker, next to that of a second broker if one is configured.

import { Chart } from "./charts.js";
import { element, none, replace, table, vary, word } from "./dom.js";
import { bytes, count, duration, partly, plural, rate } from "./format.js";
import { Lane } from "./lanes.js";
import { listen } from "./live.js";

const APIS_OPEN = 2;
const scales = { requests: { charts: [] }, entries: { charts: [] }, commit: { charts: [] } };

class BrokerPanel {
  constructor(title) {
    this.title = title;
    this.tiles = element("dl", { class: "tiles" });
    this.waterfalls = element("div");
    this.lanes = element("div");
    this.laneViews = new Map();
    this.depths = element("ul", { class: "depths" });
    this.mutes = element("div");
    this.commitFacts = element("p", { class: "none" });
    this.heading = element("h2", {}, title);
    const charts = { requests: element("div"), entries: element("div"), commit: element("div") };
    this.requests = new Chart(charts.requests, [{ label: "requests/s", colour: "--accent", value: rate }],
      { scale: scales.requests, label: "Requests per second" });
    this.entries = new Chart(charts.entries, [{ label: "batches in a commit", colour: "--accent", value: rate }],
      { scale: scales.entries, label: "Record batches in a commit" });
    this.commit = new Chart(charts.commit, [{ label: "mean time of a commit", colour: "--stage-2", value: duration }],
      { scale: scales.commit, label: "Time of a commit" });
    this.notice = none("The data of the first second has not arrived yet.");
    this.body = element("div", { hidden: true },
      this.tiles,
      card("Requests per second", element("p", { class: "lead" }, "The charts show the last ten minutes, including the time before this page was opened. Times are UTC."), charts.requests),
      card("Where the time goes", element("p", { class: "lead" }, "The bars are the consecutive stages of a request, with the mean and the 99th percentile of the last ten seconds."),
        this.part = element("p", { class: "lead", hidden: true }), this.waterfalls),
      card("Connections, request by request", element("p", { class: "lead" },
        "Each lane shows the first requests of a connection in the last second, in order of arrival. A bar starts when the request arrives and ends when its response is sent. Shading shows that the connection was muted."),
      this.legend = element("ul", { class: "legend" }), this.lanes),
      element("div", { class: "pair" },
        card(word("Commits", "commit"), this.commitFacts, element("h3", {}, "Batches in a commit"), charts.entries, element("h3", {}, "Mean time of a commit"), charts.commit),
        element("div", {}, card(word("Queues", "queue"), element("p", { class: "lead" }, "The bars show the largest number of requests in each queue during the last second."), this.depths),
          card(word("Not read", "mute"), element("p", { class: "lead" }, "The table lists the reasons why the broker did not read a connection in the last second."), this.mutes))));
    this.node = element("section", {}, this.heading, this.notice, this.body);
  }

  absent(reason) {
    this.notice.textContent = `This dashboard sends no data: ${reason}`;
    this.notice.hidden = false;
  }

  load(history) {
    this.body.hidden = false; // a chart takes the width of its element, which is 0 while hidden
    this.requests.load(history.ages, history.requests_per_s);
    this.entries.load(history.ages, history.batches_per_commit);
    this.commit.load(history.ages, history.commit_us);
  }

  update(shown) {
    this.notice.hidden = true;
    this.body.hidden = false;
    const now = Date.now() / 1000;
    replace(this.heading, `${this.title} `, element("span", { class: "chip" }, shown.broker.mode),
      element("span", { class: "chip" }, `flush ${shown.broker.flush}`));
    this.requests.add(now, [shown.beat.requests_per_s]);
    this.entries.add(now, [shown.beat.batches_per_commit]);
    this.commit.add(now, [shown.beat.commit_us]);
    this.updateTiles(shown);
    this.updateWaterfalls(shown);
    this.updateLanes(shown);
    this.updateCommits(shown);
    this.updateQueues(shown);
    replace(this.mutes, shown.mutes.length
      ? table("", [
        { title: "reason", cell: (mute) => mute.reason },
        { title: "per second", number: true, cell: (mute) => rate(mute.per_s) },
        { title: "mean", number: true, cell: (mute) => duration(mute.mean_us) },
      ], shown.mutes)
      : none("No connection was muted."));
  }

  updateTiles(shown) {
    const { standing, commits, beat } = shown;
    const busiest = shown.apis[0];
    const moved = (value) => (value === null ? "–" : bytes(Math.round(value)));
    const tiles = [
      ["requests/s", rate(shown.requests_per_s)],
      [busiest ? `${busiest.api}, mean` : "mean", busiest ? duration(busiest.total_mean_us) : "–"],
      [busiest ? `${busiest.api}, p99` : "p99", busiest ? duration(busiest.total_p99_us) : "–"],
      ["commits/s", rate(commits.per_s)],
      ["connections", count(standing.connections)],
      ["in/s", moved(beat.in_per_s)],
      ["out/s", moved(beat.out_per_s)],
    ];
    replace(this.tiles, tiles.map(([title, value]) =>
      element("div", { class: "tile" }, element("dt", {}, title), element("dd", {}, value))));
  }

  updateWaterfalls(shown) {
    this.part.hidden = shown.watched === 1;
    this.part.textContent = partly(shown.watched);
    if (!shown.apis.length) {
      replace(this.waterfalls, none("No requests in the last ten seconds."));
      return;
    }
    const wasOpen = this.waterfalls.querySelector("details")?.open;
    const drawn = shown.apis.map((api) => waterfall(api, shown.broker.stages));
    replace(this.waterfalls, drawn.slice(0, APIS_OPEN), drawn.length > APIS_OPEN
      ? element("details", { open: wasOpen }, element("summary", {}, `${drawn.length - APIS_OPEN} more APIs`), drawn.slice(APIS_OPEN))
      : null);
  }

  updateLanes(shown) {
    if (!this.legend.childElementCount) {
      replace(this.legend, shown.broker.stages.map((stage, place) =>
        element("li", {}, element("span", { class: `swatch s${place}` }), word(stage))),
      element("li", {}, element("span", { class: "swatch muted" }), word("muted", "mute")));
    }
    const seen = new Set();
    for (const lane of shown.lanes) {
      seen.add(lane.connection);
      let view = this.laneViews.get(lane.connection);
      if (!view) {
        view = new Lane(shown.broker.stages);
        this.laneViews.set(lane.connection, view);
        this.lanes.append(view.node);
      }
      view.update(lane);
    }
    for (const [connection, view] of this.laneViews) {
      if (!seen.has(connection)) {
        view.node.remove();
        this.laneViews.delete(connection);
      }
    }
    this.quiet ??= none("No requests in the last second.");
    if (seen.size) this.quiet.remove();
    else this.lanes.append(this.quiet);
  }

  updateCommits(shown) {
    const { commits, standing } = shown;
    replace(this.commitFacts, commits.per_s
      ? `${rate(commits.per_s)} commits/s. A commit has ${rate(commits.entries_mean)} batches and ${bytes(commits.bytes_mean)} on average, and at most ${count(commits.entries_max)} batches. `
        + `A write takes ${duration(commits.write_mean_us)} on average. A sync takes ${duration(commits.sync_mean_us)} on average, and ${duration(commits.sync_p99_us)} at the 99th percentile. `
        + `${standing.commits_waiting} submissions wait, and ${standing.commits_in_flight} commits are in flight.`
      : "No commits in the last second.");
  }

  updateQueues(shown) {
    const most = new Map(shown.queues.map((queue) => [queue.queue, queue.depth_max]));
    const top = Math.max(1, ...most.values());
    replace(this.depths, shown.standing.queues.map((queue) => {
      const depth = Math.max(most.get(queue.queue) ?? 0, queue.depth);
      const waiting = queue.waiting_connections ? `, ${queue.waiting_connections} connections wait for space` : "";
      return element("li", { title: `queue ${queue.queue}: up to ${depth} requests${waiting}` }, `queue ${queue.queue}`,
        element("b", {}, depth), vary(element("i"), { length: `${(100 * depth) / top}%` }));
    }));
  }
}

function card(title, ...children) {
  return element("section", { class: "card" }, element("h2", {}, title), children);
}

function waterfall(api, stages) {
  const whole = Math.max(1, api.stages.reduce((sum, stage) => sum + stage.mean_us, 0));
  let began = 0;
  const rows = api.stages.map((stage, place) => {
    const bar = vary(element("i", { class: `s${place}` }), { start: `${(100 * began) / whole}%`, length: `${(100 * stage.mean_us) / whole}%` });
    began += stage.mean_us;
    return element("tr", {},
      element("th", { scope: "row" }, element("span", { class: `swatch s${place}` }), word(stages[place])),
      element("td", { class: "number" }, duration(stage.mean_us)), element("td", { class: "number" }, duration(stage.p99_us)),
      element("td", { class: "track" }, element("div", { class: "bar" }, stage.mean_us ? bar : null)));
  });
  return element("div", { class: "scroll" }, element("table", { class: "waterfall" },
    element("caption", {}, element("strong", {}, api.api), ` ${rate(api.requests_per_s)}/s, ${count(api.requests)} requests, ${count(api.sampled)} measured`),
    element("thead", {}, element("tr", {}, ["stage", "mean", "p99", ""].map((title, place) =>
      element("th", { scope: "col", class: place === 1 || place === 2 ? "number" : place === 3 ? "track" : null }, title)))),
    element("tbody", {}, rows),
    element("tfoot", {}, element("tr", {}, element("th", { scope: "row" }, "total"),
      element("td", { class: "number" }, duration(api.total_mean_us)), element("td", { class: "number" }, duration(api.total_p99_us)), element("td")))));
}

export async function show(main, broker) {
  let isPaused = false;
  const pause = element("button", { type: "button", "aria-pressed": "false", onclick: () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    pause.textContent = isPaused ? "Resume" : "Pause";
  } }, "Pause");
  const queues = broker.is_shared_queue ? `one queue, ${broker.handlers} handlers` : `${plural(broker.queues, "queue")} with one handler each`;
  const commit = broker.commit === "group" ? "one commit for all waiting requests" : "one commit per request";
  const own = new BrokerPanel("This broker");
  const brokers = element("div", { class: "brokers" }, own.node);
  replace(main,
    element("div", { class: "head" }, element("h1", {}, "Request pipeline"), pause),
    element("p", { class: "lead" }, `${broker.mode}: ${queues}, up to ${plural(broker.in_flight_max, "unanswered request")} per connection, ${commit}.`
      + (broker.commit_delay_ms ? ` Every commit is delayed by ${broker.commit_delay_ms} ms.` : "")),
    brokers);
  const handlers = (panel) => ({ history: (history) => panel.load(history), pipeline: (shown) => isPaused || panel.update(shown) });
  listen("/events/pipeline", handlers(own));
  if (broker.beside) {
    const other = new BrokerPanel(broker.beside);
    brokers.classList.add("two");
    brokers.append(other.node);
    listen("/events/beside", {
      ...handlers(other),
      absent: (absent) => other.absent(absent.reason),
    });
  }
}
