// One connection as a lane: its requests in order of arrival, each a bar from arrival to the end of its response.

import { element, replace } from "./dom.js";
import { duration, plural } from "./format.js";

const ROWS_MAX = 20;
const ROW_PIXELS = 8;
const BAR_PIXELS = 6;
const TOP_PIXELS = 16;
const ORDER_WAIT = 4;

export class Lane {
  constructor(stages) {
    this.stages = stages;
    this.canvas = element("canvas", { role: "img" });
    this.title = element("p");
    this.node = element("div", { class: "lane" }, this.title, this.canvas);
  }

  update(lane) {
    const shown = lane.requests.slice(0, ROWS_MAX);
    const places = shown.map((request) => request.out);
    const overtaken = places.filter((place, row) => row > 0 && place < places[row - 1]).length;
    const waited = shown.filter((request) => request.stages_us[ORDER_WAIT] > 0).length;
    const depth = Math.max(...shown.map((request) => request.depth));
    const apis = [...new Set(shown.map((request) => request.api))].slice(0, 3).join(", ");
    replace(this.title,
      element("strong", {}, `Connection ${lane.connection}`), ` ${apis}: ${plural(shown.length, "request")}, up to ${depth} in flight; `,
      overtaken ? element("span", { class: "error" }, `${plural(overtaken, "response")} sent out of order`)
        : element("span", { class: "ok" }, "responses were sent in order"),
      waited ? `; ${waited} waited for an earlier response` : "",
      lane.mutes.length ? `; muted ${plural(lane.mutes.length, "time")}` : "");
    this.draw(lane, shown);
    this.canvas.setAttribute("aria-label", `${this.title.textContent}. Span ${duration(lane.span_us)}.`);
  }

  draw(lane, shown) {
    const width = Math.max(160, this.node.clientWidth);
    const height = TOP_PIXELS + Math.max(6, shown.length) * ROW_PIXELS;
    const density = window.devicePixelRatio || 1;
    this.canvas.width = width * density;
    this.canvas.height = height * density;
    this.canvas.style.height = `${height}px`;
    const style = getComputedStyle(document.documentElement);
    const colour = (variable) => style.getPropertyValue(variable).trim();
    const pen = this.canvas.getContext("2d");
    pen.scale(density, density);
    const end = Math.max(1, ...shown.map((request) => request.received_us + request.stages_us.reduce((a, b) => a + b, 0)));
    const at = (us) => (us / end) * width;
    pen.fillStyle = colour("--mute");
    for (const mute of lane.mutes) {
      if (mute.began_us < end) {
        pen.fillRect(at(mute.began_us), TOP_PIXELS, Math.max(1, at(Math.min(mute.ended_us, end) - mute.began_us)), height);
      }
    }
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = colour("--quiet");
    pen.strokeStyle = colour("--line");
    for (let tick = 0; tick <= 4; tick += 1) {
      const x = Math.min(width - 0.5, Math.max(0.5, (tick / 4) * width));
      pen.beginPath();
      pen.moveTo(x, TOP_PIXELS - 3);
      pen.lineTo(x, height);
      pen.stroke();
      pen.textAlign = tick === 0 ? "left" : tick === 4 ? "right" : "center";
      pen.fillText(duration(Math.round((tick / 4) * end)), x, 10);
    }
    const colours = this.stages.map((_, place) => colour(`--stage-${place}`));
    shown.forEach((request, row) => {
      const y = TOP_PIXELS + row * ROW_PIXELS + 1;
      let began = request.received_us;
      request.stages_us.forEach((us, place) => {
        if (us > 0) {
          pen.fillStyle = colours[place];
          pen.fillRect(at(began), y, Math.max(0.6, at(us)), BAR_PIXELS);
        }
        began += us;
      });
      pen.fillStyle = colour("--text");
      pen.fillRect(at(request.received_us), y, 1, BAR_PIXELS);
      pen.fillRect(Math.min(width - 1, at(began)), y, 1, BAR_PIXELS);
    });
  }
}
