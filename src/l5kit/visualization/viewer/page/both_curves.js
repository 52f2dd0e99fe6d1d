// @ts-check
/** Curves of two drives that are shown side by side, both in one plot below the views. */

import { byId, make } from "l5kit/dom";
import { foldButton } from "l5kit/folding";
import { joinCurves, shiftOf } from "l5kit/joined_curves";
import { rangeNamed } from "l5kit/plot_ranges";
import { lineColor, TimePlot } from "l5kit/plots";
import { followTheme } from "l5kit/theme";

/** @typedef {import("l5kit/joined_curves").ToldDrive} ToldDrive */
/** @typedef {{seek: number, side: number}} Seek seconds since the first frame of the page on a side */

const HEIGHT_PX = 68;

/** The strip of plots; hidden while neither page shows a drive. */
export class BothCurves {
  /** @param {(seek: Seek) => void} onSeek @param {{isOfOverview: boolean}} where whether there is a link back to an overview */
  constructor(onSeek, { isOfOverview }) {
    this.onSeek = onSeek;
    this.isOfOverview = isOfOverview;
    this.section = byId("both-curves");
    /** @type {(ToldDrive | null)[]} */
    this.drives = [null, null];
    /** @type {import("l5kit/joined_curves").JoinedCurves | null} */
    this.joined = null;
    /** @type {TimePlot[]} */
    this.plots = [];
    /** @type {{time_s: number, start_time_ns: string} | null} */
    this.shown = null;
    this.theme = followTheme(() => this.make());
  }

  /** @param {number} side 0 or 1 @param {ToldDrive | null} drive of the page on this side */
  setDrive(side, drive) {
    this.drives[side] = drive;
    this.joined = joinCurves(this.drives);
    this.make();
  }

  /** Return the first drive, whose start is the origin of the time axis. */
  first() {
    return this.drives[0] ?? this.drives[1];
  }

  /** Rebuild the plots. */
  make() {
    this.section.hidden = this.joined === null;
    const { joined, theme } = this;
    if (!joined) return;
    const onSeek = (/** @type {number} */ at) => {
      const side = this.drives[0] ? 0 : 1;
      this.onSeek({ seek: joined.time_s[at], side });
    };
    this.plots = joined.curves.map(({ curve: { key, name, unit, digits, axis } }) => {
      const plot = new TimePlot({ name, unit, digits, range: rangeNamed(axis), onSeek, theme, height_px: HEIGHT_PX });
      plot.element.dataset.testid = `curve-${key}`;
      return plot;
    });
    const plots = make("div", { class: "both-plots" }, ...this.plots.map(({ element }) => element));
    const head = make("div", { class: "both-head" }, foldButton(this.section, "Curves"), this.legend());
    this.section.replaceChildren(head, plots);
    joined.curves.forEach(({ lines: [first, ...others] }, at) => {
      this.plots[at].setData(joined.time_s, first.values, { name: first.name, kind: first.kind, others });
    });
    if (this.shown) this.showTime(this.shown);
  }

  /** @returns {HTMLElement} legend of the lines */
  legend() {
    const lines = new Map(
      (this.joined?.curves ?? []).flatMap(({ lines }) => lines.map((line) => [line.kind, line.name])),
    );
    const items = [...lines].map(([kind, name]) => {
      const sign = make("span", { class: kind === "log" ? "line-sign dashed" : "line-sign" });
      sign.style.color = lineColor(kind, this.theme());
      return make("li", {}, sign, make("span", {}, name));
    });
    const back = make("a", { href: "./", class: "text-button", "data-testid": "to-overview" }, "All scenes");
    if (this.isOfOverview) items.push(make("li", {}, back));
    return make("ul", { class: "both-legend", "aria-label": "Lines" }, ...items);
  }

  /** @param {{time_s: number, start_time_ns: string}} shown time of the leading page */
  showTime(shown) {
    this.shown = shown; // drives may arrive later
    const { time_s, start_time_ns } = shown;
    const first = this.first();
    if (!first || !this.joined) return;
    const at = nearest(this.joined.time_s, time_s + shiftOf({ start_time_ns, time_s: first.time_s }, first));
    for (const plot of this.plots) plot.showFrame(at);
  }
}

/** @param {number[]} times_s ascending @param {number} time_s @returns {number} index of the nearest */
function nearest(times_s, time_s) {
  let found = 0;
  times_s.forEach((each, at) => {
    if (Math.abs(each - time_s) < Math.abs(times_s[found] - time_s)) found = at;
  });
  return found;
}
