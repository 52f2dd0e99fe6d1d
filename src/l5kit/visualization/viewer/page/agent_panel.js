// @ts-check
/** Logged data of one agent, or of the AV, in the current frame. */

import { byId, icon, make, onPress, setPressed, setText } from "l5kit/dom";
import { angle, className, counted, percent, quantity } from "l5kit/format";
import { classColor, EGO_COLOR } from "l5kit/palette";
import { speedRange, yawRange } from "l5kit/plot_ranges";
import { TimePlot } from "l5kit/plots";
import { EGO_TRACK } from "l5kit/tracks";

/** @typedef {import("l5kit/scene_model").SceneModel} SceneModel */

const FACTS = /** @type {const} */ (["class", "speed", "yaw", "distance", "extent", "frames"]);
const FACT_NAMES = {
  class: "Class",
  speed: "Speed",
  yaw: "Yaw",
  distance: "To the AV",
  extent: "L \u00d7 W \u00d7 H",
  frames: "Seen in",
};

/** The panel of the selected agent. */
export class AgentPanel {
  /**
   * @param {object} hooks
   * @param {(frame: number) => void} hooks.onSeek
   * @param {() => void} hooks.onDeselect
   * @param {() => void} hooks.onFollow called to follow the agent, or to stop following
   * @param {() => import("l5kit/theme").Theme} hooks.theme
   */
  constructor({ onSeek, onDeselect, onFollow, theme }) {
    /** @type {SceneModel | null} */
    this.scene = null;
    /** @type {number | null} */
    this.track = null;
    this.frame = 0;
    this.row = -2; // row of the displayed probabilities
    this.speedPlot = new TimePlot({ name: "Speed", unit: "m/s", digits: 2, range: speedRange, onSeek, theme });
    this.yawPlot = new TimePlot({ name: "Yaw", unit: "\u00b0", digits: 1, range: yawRange, onSeek, theme });
    this.onSeek = onSeek;
    this.swatch = make("span", { class: "swatch" });
    this.title = make("h2", { "data-testid": "agent-title" });
    const close = make("button", {
      type: "button",
      class: "button icon",
      title: "Deselect (Esc)",
      "aria-label": "Deselect",
    });
    close.append(icon("close"));
    onPress(close, onDeselect);
    this.follow = make(
      "button",
      {
        type: "button",
        class: "button",
        "aria-pressed": "false",
        "data-testid": "follow-track",
        title: "Keep this agent in the middle",
      },
      "Follow",
    );
    onPress(this.follow, onFollow);
    /** @type {Record<string, HTMLElement>} */
    this.facts = Object.fromEntries(FACTS.map((name) => [name, make("dd", { "data-testid": `agent-${name}` })]));
    const rows = FACTS.map((name) => make("div", {}, make("dt", {}, FACT_NAMES[name]), this.facts[name]));
    this.absent = make("p", { class: "absent" });
    this.inMask = make("span", { "data-testid": "in-mask" });
    this.reason = make("span", { "data-testid": "mask-reason" });
    this.rule = make("small", {});
    this.mask = make(
      "div",
      { class: "mask" },
      make("strong", {}, "In the agents mask: ", this.inMask),
      this.reason,
      this.rule,
    );
    this.bars = make("ol", {
      class: "bars",
      "data-testid": "probabilities",
      "aria-label": "Probabilities of the classes",
    });
    this.body = make(
      "div",
      { class: "agent-body" },
      make("div", { class: "panel-head" }, this.swatch, this.title, this.follow, close),
      this.absent,
      make("dl", { class: "agent-facts" }, ...rows),
      this.mask,
      this.speedPlot.element,
      this.yawPlot.element,
      this.bars,
    );
    this.hint = make("p", { class: "hint" }, "Click an agent or the AV in the picture, or choose one from the list.");
    byId("agent-panel").append(this.hint, this.body);
    this.body.hidden = true;
  }

  /** @param {SceneModel | null} scene */
  setScene(scene) {
    this.scene = scene;
    this.select(null);
    setText(this.rule, scene ? maskRule(scene.facts.mask) : "");
  }

  /** @param {number | null} track index, EGO_TRACK or null */
  select(track) {
    this.track = track;
    this.row = -2;
    const { scene } = this;
    const shown = scene !== null && track !== null;
    this.body.hidden = !shown;
    this.hint.hidden = shown;
    this.follow.hidden = track === EGO_TRACK;
    byId("agent-panel").dataset.track = shown ? (track === EGO_TRACK ? "av" : scene.trackIds[track]) : "";
    if (!shown) return;
    const { speed, yaw } = scene.series(track);
    this.speedPlot.setData(scene.time_s, speed);
    this.yawPlot.setData(scene.time_s, yaw);
    this.showFrames(scene, track);
    this.showFrame(this.frame);
  }

  /** @param {number} frame */
  showFrame(frame) {
    this.frame = frame;
    if (this.scene === null || this.track === null) return;
    this.speedPlot.showFrame(frame);
    this.yawPlot.showFrame(frame);
    if (this.track === EGO_TRACK) this.showEgo(this.scene);
    else this.showAgent(this.scene, this.track);
  }

  /** @param {boolean} follows whether the view follows this agent */
  showFollowing(follows) {
    setPressed(this.follow, follows);
  }

  /** Draw the plots in the colours of the theme. */
  themeChanged() {
    this.speedPlot.rebuild();
    this.yawPlot.rebuild();
  }

  /** Show the number of frames, with links to the first and the last. @param {SceneModel} scene @param {number} track */
  showFrames(scene, track) {
    const rows = track === EGO_TRACK ? null : scene.rowsOf(track);
    const first = rows ? scene.frameOfRow[rows[0]] : 0;
    const last = rows ? scene.frameOfRow[rows[rows.length - 1]] : scene.numFrames - 1;
    const seen = rows ? rows.length : scene.numFrames;
    const link = (/** @type {number} */ frame) => {
      const button = make(
        "button",
        { type: "button", class: "text-button", title: `Go to frame ${frame}` },
        String(frame),
      );
      onPress(button, () => this.onSeek(frame));
      return button;
    };
    this.facts.frames.replaceChildren(`${counted(seen, "frame")}, `, link(first), " to ", link(last));
  }

  /** @param {SceneModel} scene */
  showEgo(scene) {
    const { arrays, facts } = scene;
    const [length, width] = facts.ego_size_m;
    this.showHead("AV", EGO_COLOR);
    this.showFacts({
      class: "AV",
      speed: quantity(arrays.ego_speed[this.frame], 1, "m/s"),
      yaw: angle(arrays.ego_yaw[this.frame]),
      distance: "\u2013",
      extent: `${quantity(length, 2)} \u00d7 ${quantity(width, 2)} m`,
    });
    this.showAbsent("");
    this.showMask("absent", "no", "the AV is not an agent");
    this.showBars(null, -1);
  }

  /** @param {SceneModel} scene @param {number} track */
  showAgent(scene, track) {
    const { arrays, facts } = scene;
    const here = scene.rowOf(track, this.frame);
    const row = here >= 0 ? here : scene.nearestRow(track, this.frame);
    const label = facts.labels[arrays.agent_label[row]] ?? "?";
    const probability = arrays.agent_probabilities[row * facts.labels.length + arrays.agent_label[row]];
    const extent = [0, 1, 2].map((axis) => quantity(arrays.agent_extent[3 * row + axis], 2)).join(" \u00d7 ");
    this.showHead(`Track ${scene.trackIds[track]}`, classColor(label));
    this.showFacts({
      class: `${className(label)}, ${percent(probability)}`,
      speed: here < 0 ? "\u2013" : quantity(scene.speedOf(row), 1, "m/s"),
      yaw: here < 0 ? "\u2013" : angle(arrays.agent_yaw[row]),
      distance: here < 0 ? "\u2013" : quantity(scene.distanceToEgo(row), 1, "m"),
      extent: `${extent} m`,
    });
    this.showAbsent(here < 0 ? `Not in this frame; class and size are of frame ${scene.frameOfRow[row]}.` : "");
    if (here < 0) this.showMask("absent", "not in this frame", "");
    else if (arrays.agent_in_mask[row]) this.showMask("yes", "yes", facts.reasons[arrays.agent_reason[row]] ?? "");
    else this.showMask("no", "no", facts.reasons[arrays.agent_reason[row]] ?? "");
    this.showBars(scene, row);
  }

  /** @param {string} title @param {string} color */
  showHead(title, color) {
    setText(this.title, title);
    this.swatch.style.background = color;
  }

  /** @param {Record<string, string>} texts */
  showFacts(texts) {
    for (const [name, text] of Object.entries(texts)) setText(this.facts[name], text);
  }

  /** @param {string} text */
  showAbsent(text) {
    this.absent.hidden = !text;
    setText(this.absent, text);
  }

  /** @param {"yes" | "no" | "absent"} state @param {string} answer @param {string} reason */
  showMask(state, answer, reason) {
    this.mask.dataset.state = state;
    setText(this.inMask, answer);
    setText(this.reason, reason);
  }

  /** @param {SceneModel | null} scene @param {number} row */
  showBars(scene, row) {
    if (row === this.row) return;
    this.row = row;
    this.bars.replaceChildren(...(scene ? probabilityBars(scene, row) : []));
  }
}

/** @param {SceneModel} scene @param {number} row @returns {HTMLElement[]} all above 0, largest first */
function probabilityBars(scene, row) {
  const { labels } = scene.facts;
  const values = scene.arrays.agent_probabilities.subarray(row * labels.length, (row + 1) * labels.length);
  const above = [...values].map((value, label) => ({ value, label })).filter(({ value }) => value > 0);
  above.sort((a, b) => b.value - a.value);
  return above.map(({ value, label }) => {
    const fill = make("span", { class: "bar-fill" });
    fill.style.width = `${Math.min(100 * value, 100)}%`;
    fill.style.background = classColor(labels[label]);
    return make(
      "li",
      {},
      make("span", { class: "bar-name" }, className(labels[label])),
      make("span", { class: "bar-track" }, fill),
      make("span", { class: "bar-value" }, percent(value)),
    );
  });
}

/**
 * @param {import("l5kit/unpack").SceneFacts["mask"] | undefined} mask
 * @returns {string} the requirements of a row
 */
function maskRule(mask) {
  if (!mask) return "";
  const frames = `${mask.min_frame_history} valid frames before and ${mask.min_frame_future} after`;
  const probable = `a road user with probability above ${mask.threshold}`;
  return `Needed: ${probable}, within ${mask.distance_av_m} m of the AV, ${frames}`;
}
