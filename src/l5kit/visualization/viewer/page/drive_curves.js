// @ts-check
/** Curves of the values that a drive is scored by, below the player; each can be hidden. */

import { byId, make, onPress, setPressed } from "l5kit/dom";
import { colorOf, describe } from "l5kit/failures";
import { foldButton } from "l5kit/folding";
import { rangeNamed } from "l5kit/plot_ranges";
import { TimePlot } from "l5kit/plots";

/** @typedef {import("l5kit/unpack").Curve} Curve */
/** @typedef {import("l5kit/drive_model").DriveModel} DriveModel */

const HEIGHT_PX = 68;

/** The curves and the buttons that hide them. */
export class DriveCurves {
  /**
   * @param {object} hooks
   * @param {(frame: number) => void} hooks.onSeek
   * @param {(failure: number) => void} hooks.onPlay
   * @param {() => import("l5kit/theme").Theme} hooks.theme
   */
  constructor({ onSeek, onPlay, theme }) {
    this.onPlay = onPlay;
    this.onSeek = onSeek;
    this.theme = theme;
    /** @type {DriveModel | null} */
    this.drive = null;
    this.section = byId("curves");
    this.hidden = new Set();
    /** @type {Curve[]} */
    this.curves = [];
    /** @type {TimePlot[]} */
    this.plots = [];
    /** @type {HTMLElement[]} */
    this.chips = [];
  }

  /** @param {Curve[]} curves curves of a simulation, the same for all its drives */
  make(curves) {
    this.curves = curves;
    this.plots = curves.map(({ key, name, unit, digits, axis }) => {
      const { onSeek, theme } = this;
      const plot = new TimePlot({ name, unit, digits, range: rangeNamed(axis), onSeek, theme, height_px: HEIGHT_PX });
      plot.element.dataset.testid = `curve-${key}`;
      return plot;
    });
    this.chips = curves.map((curve) => this.chip(curve));
    this.section.replaceChildren(
      make(
        "div",
        { class: "toggles curve-toggles", role: "group", "aria-label": "Curves" },
        foldButton(this.section, "Curves"),
        ...this.chips,
      ),
      make("div", { class: "curve-plots" }, ...this.plots.map(({ element }) => element)),
    );
  }

  /** @param {Curve} curve @returns {HTMLElement} */
  chip({ key, name, chip: text }) {
    const title = `Show or hide: ${name}`;
    const chip = make(
      "button",
      { type: "button", class: "chip", "aria-pressed": "true", title, "data-testid": `toggle-${key}` },
      text,
    );
    onPress(chip, () => {
      if (!this.hidden.delete(key)) this.hidden.add(key);
      setPressed(chip, !this.hidden.has(key));
      this.showChosen();
    });
    return chip;
  }

  /** @param {DriveModel | null} drive @param {ArrayLike<number>} time_s (F,) */
  setDrive(drive, time_s) {
    this.drive = drive;
    this.section.hidden = drive === null;
    if (!drive) return;
    if (!this.curves.length) this.make(drive.facts.curves);
    this.showChosen();
    this.curves.forEach((curve, at) => {
      /** @type {import("l5kit/plots").OtherLine[]} */
      const others = curve.key === "speed" ? [{ name: "log", kind: "log", values: drive.curve("log_speed") }] : [];
      this.plots[at].setData(time_s, drive.curve(curve.key), { others, marks: this.marksOf(curve, drive, time_s) });
    });
  }

  /** @param {Curve} curve @param {DriveModel} drive @param {ArrayLike<number>} time_s @returns {import("l5kit/plots").Mark[]} */
  marksOf({ kinds }, drive, time_s) {
    return drive.failures.flatMap((failure, number) => {
      if (!kinds.includes(failure.kind)) return [];
      const { first_frame: first, last_frame: last } = failure;
      const title = `${describe(failure, time_s)}: press to play from two seconds before`;
      return [{ first, last, color: colorOf(failure), title, onPress: () => this.onPlay(number) }];
    });
  }

  /** Show the curves that are neither hidden nor without values. */
  showChosen() {
    this.curves.forEach(({ key }, at) => {
      const isKnown = this.drive?.hasCurve(key) ?? false;
      this.plots[at].element.hidden = this.hidden.has(key) || !isKnown;
      this.chips[at].hidden = !isKnown;
    });
  }

  /** @param {number} frame */
  showFrame(frame) {
    if (this.drive) for (const plot of this.plots) plot.showFrame(frame);
  }

  /** Draw in the colours of the theme. */
  themeChanged() {
    if (this.drive) for (const plot of this.plots) plot.rebuild();
  }
}
