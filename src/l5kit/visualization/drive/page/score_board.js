// @ts-check
/** Live display of the judgement: the score, its metrics, and the values of this moment. */

import { byId, make, setText } from "l5kit/dom";
import { quantity } from "l5kit/format";

const KMH = 3.6;

/** @typedef {import("l5kit/drive/judge").DriveJudge} DriveJudge */
/** @typedef {{name: string, label: string, sentence: string, passes_from: number | null, failure: string}} MetricFacts */

/** The panel next to the scene. */
export class ScoreBoard {
  /** @param {MetricFacts[]} metrics @param {number} step_s of the simulation */
  constructor(metrics, step_s) {
    this.metrics = metrics;
    this.step_s = step_s;
    /** @type {Map<string, HTMLElement>} */
    this.failed = new Map(); // lines of failures, by metric
    const rows = metrics.map(({ name, label, sentence }) =>
      make("tr", { "data-metric": name }, make("th", { scope: "row", title: sentence }, label), make("td", {}, "")),
    );
    byId("drive-metrics").replaceChildren(...rows);
    byId("drive-failures").replaceChildren();
  }

  /** @param {DriveJudge} judge */
  show(judge) {
    const { score, metrics, comfortable } = judge.reportNow();
    const { terms } = judge;
    const term = terms[terms.length - 1];
    const { ego } = judge.simulation.frames[terms.length - 1];
    setText(byId("drive-score"), quantity(score, 2));
    for (const facts of this.metrics) this.showMetric(facts, metrics[facts.name], terms.length);
    const isFast = term.excess_mps > 1e-6;
    showValue("now-speed", quantity(KMH * ego.speed, 0), isFast);
    setText(byId("now-limit"), Number.isNaN(term.limit_mps) ? "\u2013" : quantity(KMH * term.limit_mps, 0));
    const near_s = judge.simulation.facts.look.least_s;
    const isMet = Number.isFinite(term.timeToCollision_s);
    showValue("now-ttc", isMet ? quantity(term.timeToCollision_s, 1, "s") : "free", term.timeToCollision_s <= near_s);
    const off = Number.isFinite(term.offRoad_m) ? `${quantity(term.offRoad_m, 1, "m")} off` : "off it"; // distance unknown
    showValue("now-road", term.offRoad_m > 0 ? off : "on it", term.offRoad_m >= 0.3);
    const isRough = comfortable.slice(-10).includes(false);
    showValue("now-comfort", isRough ? "rough" : "smooth", isRough);
    showValue("now-progress", quantity(metrics.progress, 2), false);
  }

  /** @param {MetricFacts} facts @param {number} value @param {number} numFrames */
  showMetric({ name, label, passes_from, failure }, value, numFrames) {
    const row = document.querySelector(`[data-metric="${name}"]`);
    const cell = row?.querySelector("td");
    if (!row || !cell) return;
    const isFailed = passes_from !== null && value < passes_from;
    setText(cell, quantity(value, 2));
    row.classList.toggle("failed", isFailed);
    const line = this.failed.get(name);
    if (!isFailed) line?.remove(); // means, such as the excess of speed, may pass again
    if (!isFailed) this.failed.delete(name);
    if (!isFailed || line || name === "making_progress") return; // progress cannot fail before the end
    const added = make("li", { title: label }, `${quantity((numFrames - 1) * this.step_s, 1, "s")}: ${failure}`);
    this.failed.set(name, added);
    byId("drive-failures").append(added);
  }
}

/** @param {string} id @param {string} text @param {boolean} isBad */
function showValue(id, text, isBad) {
  setText(byId(id), text);
  byId(id).classList.toggle("bad", isBad);
}
