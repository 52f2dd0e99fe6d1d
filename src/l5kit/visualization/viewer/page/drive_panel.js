// @ts-check
/** The score of the open drive: a table of its metrics, and its failures, each of which can be played. */

import { byId, make, onPress, setText } from "l5kit/dom";
import { colorOf, describe } from "l5kit/failures";
import { quantity, withoutMap } from "l5kit/format";

/** @typedef {import("l5kit/drive_model").DriveModel} DriveModel */

/** The panel; hidden if the dataset is not a simulation. */
export class DrivePanel {
  /** @param {(failure: number) => void} onPlay */
  constructor(onPlay) {
    this.onPlay = onPlay;
    this.section = byId("drive-panel");
    this.score = byId("scene-score"); // shown when there is no room for the panel
    this.title = make("h2", { "data-testid": "drive-score" });
    this.about = make("p", { class: "hint" });
    this.metrics = make("tbody");
    this.list = make("ol", { class: "failures", "aria-label": "Failures" });
    this.section.append(
      this.title,
      this.about,
      make("table", { class: "metrics", "aria-label": "Metrics of this scene" }, this.metrics),
      this.list,
    );
  }

  /**
   * @param {DriveModel | null} drive
   * @param {ArrayLike<number>} time_s (F,)
   */
  setDrive(drive, time_s) {
    this.section.hidden = drive === null;
    setText(this.score, drive ? `score ${quantity(drive.facts.score, 2)}` : "");
    if (!drive) return;
    const { facts, failures } = drive;
    setText(
      this.title,
      `Score ${quantity(facts.score, 2)}${withoutMap(Object.fromEntries(facts.metrics.map(({ name, value }) => [name, value])))}`,
    );
    setText(this.about, `Scene ${facts.log_scene} of ${facts.log}${facts.has_log ? "" : ", whose log is not there"}`);
    const rows = facts.metrics.map(({ name, label, sentence, value, digits, unit, failed }) => {
      const cell = make("td", { "data-testid": `metric-${name}` }, quantity(value, digits, unit));
      cell.classList.toggle("failed", failed);
      return make("tr", { title: sentence }, make("th", { scope: "row" }, label), cell);
    });
    this.metrics.replaceChildren(...rows);
    const items = failures.map((failure, number) => {
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = colorOf(failure);
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
