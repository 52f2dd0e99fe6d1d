// @ts-check
/** The score of the drive that is open: its metrics as a table, and its failures, each of which can be played. */

import { byId, make, onPress, setText } from "l5kit/dom";
import { describe, kindOf } from "l5kit/failures";
import { quantity, withoutMap } from "l5kit/format";

/** @typedef {import("l5kit/drive_model").DriveModel} DriveModel */

/** @type {[string, string][]} */
const METRICS = [
  ["no_at_fault_collisions", "No collision at fault"],
  ["drivable_area_compliance", "Stays on the road"],
  ["making_progress", "Makes progress"],
  ["driving_direction_compliance", "Drives in direction"],
  ["progress", "Progress"],
  ["time_to_collision", "Time to collision"],
  ["speed_limit_compliance", "Speed limit"],
  ["comfort", "Comfort"],
];

/** The panel; hidden where the dataset is no simulation. */
export class DrivePanel {
  /** @param {(failure: number) => void} onPlay */
  constructor(onPlay) {
    this.onPlay = onPlay;
    this.section = byId("drive-panel");
    this.title = make("h2", { "data-testid": "drive-score" });
    this.about = make("p", { class: "hint" });
    this.values = METRICS.map(([key]) => make("td", { "data-testid": `metric-${key}` }));
    const rows = METRICS.map(([, name], at) => make("tr", {}, make("th", { scope: "row" }, name), this.values[at]));
    this.list = make("ol", { class: "failures", "aria-label": "Failures" });
    this.section.append(
      this.title,
      this.about,
      make("table", { class: "metrics", "aria-label": "Metrics of this scene" }, make("tbody", {}, ...rows)),
      this.list,
    );
  }

  /**
   * @param {DriveModel | null} drive
   * @param {ArrayLike<number>} time_s (F,)
   */
  setDrive(drive, time_s) {
    this.section.hidden = drive === null;
    if (!drive) return;
    const { facts, failures } = drive;
    setText(this.title, `Score ${quantity(facts.score, 2)}${withoutMap(facts.metrics)}`);
    setText(this.about, `Scene ${facts.log_scene} of ${facts.log}${facts.has_log ? "" : ", whose log is not there"}`);
    METRICS.forEach(([key], at) => {
      setText(this.values[at], quantity(facts.metrics[key], 2));
      this.values[at].classList.toggle("failed", facts.failed.includes(key));
    });
    const items = failures.map((failure, number) => {
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = kindOf(failure).color;
      const button = make(
        "button",
        { type: "button", class: "failure", "data-testid": "failure", title: "Play from two seconds before" },
        swatch,
        describe(failure, time_s),
      );
      onPress(button, () => this.onPlay(number));
      return make("li", {}, button);
    });
    this.list.replaceChildren(...(items.length ? items : [make("li", { class: "hint" }, "Nothing failed.")]));
  }
}
