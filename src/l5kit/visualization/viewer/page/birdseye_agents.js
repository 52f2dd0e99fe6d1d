// @ts-check
/** Moving objects: boxes of agents and of the AV, and their past and future paths. */

import { agentBox, distanceTo, drawnBox, outline, overlapping, pointOf } from "l5kit/boxes";
import { classColor, EGO_COLOR, shade, toNumber } from "l5kit/palette";
import { EGO_TRACK, Path, spread, Tracks } from "l5kit/tracks";
import { Container } from "pixi.js";

const PAST_FRAMES = 20;
const FUTURE_FRAMES = 50;
const EGO_PAST_FRAMES = 50;
const EGO_FUTURE_FRAMES = 100;
const MOVES_FROM_M = 2; // hides the jitter of standing agents
const SPACING_PX = 2; // between points of trajectories; also in metres
const SPACING_M = 0.3;
const FAINT = 0.28;
const MARK_FROM_PX = 9; // length of the smallest box with a mark of its heading
const PICK_PX = 7; // clicks this close to a box select it
const RIM_M = 0.35; // around the AV
const OVERLAPPING = 0.65; // opacity of overlapping boxes, so that both are visible
const EGO_TONE = toNumber(EGO_COLOR);

/** @typedef {import("l5kit/boxes").Box} Box */

/** The agents of a scene. Coordinates are metres from its origin. */
export class AgentLayer {
  /**
   * @param {import("l5kit/unpack").PackedScene} scene
   * @param {import("l5kit/paint_webgl").Frame} frame of a painter
   * @param {import("l5kit/palette").Tones} tones
   */
  constructor(scene, frame, tones) {
    this.scene = scene;
    this.arrays = scene.arrays;
    this.origin = scene.facts.origin_m;
    this.tracks = new Tracks(scene);
    this.numFrames = scene.arrays.agent_starts.length - 1;
    this.colors = scene.facts.labels.map((label) => toNumber(classColor(label)));
    this.frame = frame;
    this.tones = tones;
    this.node = new Container();
    this.paths = frame.batch();
    this.boxes = frame.batch();
    this.node.addChild(this.paths.node, this.boxes.node);
    /** @type {Box[]} */
    this.shown = [];
    this.index = 0;
    this.scale = 1;
    this.options = { past: true, future: true, mask: false };
  }

  /** @param {number} index @returns {Box | null} */
  egoBox(index) {
    const { ego_xy, ego_yaw } = this.arrays;
    const [length, width] = this.scene.facts.ego_size_m;
    const box = {
      track: EGO_TRACK,
      row: -1,
      x: ego_xy[2 * index],
      y: ego_xy[2 * index + 1],
      yaw: ego_yaw[index],
      length,
      width,
    };
    return Object.values(box).every(Number.isFinite) ? box : null;
  }

  /** @param {number} track @param {number} index of the frame @returns {Box | null} null if it is not seen */
  boxOf(track, index) {
    if (track === EGO_TRACK) return this.egoBox(index);
    const row = track < this.tracks.starts.length - 1 ? this.tracks.rowAt(track, index) : -1;
    return row < 0 ? null : agentBox(this.arrays, row);
  }

  /**
   * @param {number} index of the frame
   * @param {number} scale CSS pixels per metre
   * @param {{past: boolean, future: boolean, mask: boolean}} options
   * @param {number | null} selected track
   */
  draw(index, scale, options, selected) {
    this.index = index;
    this.scale = scale;
    this.options = options;
    this.shown = this.boxesAt(index);
    this.paths.clear();
    this.boxes.clear();
    for (const box of this.shown) if (box.track !== selected) this.drawPaths(box.track, this.isFaint(box) ? FAINT : 1);
    if (selected !== null) this.drawWhole(selected);
    this.drawBoxes();
    const chosen = this.shown.find((box) => box.track === selected);
    if (chosen) this.drawSelection(drawnBox(chosen, scale));
    this.paths.commit();
    this.boxes.commit();
  }

  /** @param {number} index @returns {Box[]} all visible boxes; the AV is last, on top */
  boxesAt(index) {
    const { agent_starts } = this.arrays;
    const boxes = [];
    for (let row = agent_starts[index]; row < agent_starts[index + 1]; row++) boxes.push(agentBox(this.arrays, row));
    return [...boxes, this.egoBox(index)].filter((box) => box !== null);
  }

  /** @param {Box} box @returns {boolean} whether it is drawn faint, as outside the agents mask */
  isFaint({ row }) {
    return this.options.mask && row >= 0 && !this.arrays.agent_in_mask[row];
  }

  /** @param {number} track @returns {number} */
  colorOf(track) {
    if (track === EGO_TRACK) return EGO_TONE;
    const row = this.tracks.rows[Math.min(this.tracks.placeOf(track, this.index), this.tracks.starts[track + 1] - 1)];
    return this.colors[this.arrays.agent_label[row]] ?? this.colors[0];
  }

  /** @param {number} track @param {number} from @param {number} to @returns {number[][]} */
  pathsOf(track, from, to) {
    const spacing = Math.max(SPACING_PX / this.scale, SPACING_M);
    if (track !== EGO_TRACK) return this.tracks.paths(track, from, to, spacing);
    const { ego_xy } = this.arrays;
    const path = new Path(spacing);
    for (let frame = Math.max(from, 0); frame <= Math.min(to, this.numFrames - 1); frame++)
      path.add(ego_xy[2 * frame], ego_xy[2 * frame + 1]);
    return [path.close()];
  }

  /** @param {number} track @param {number} strength of its colours, 0 to 1 */
  drawPaths(track, strength) {
    const isEgo = track === EGO_TRACK;
    const [before, after] = isEgo ? [EGO_PAST_FRAMES, EGO_FUTURE_FRAMES] : [PAST_FRAMES, FUTURE_FRAMES];
    const past = {
      color: this.tones.past,
      alpha: 0.1 * strength,
      endAlpha: 0.7 * strength,
      width_m: isEgo ? 0.45 : 0.25,
      leastWidth_px: 1.25,
    };
    const future = isEgo
      ? { color: EGO_TONE, alpha: 0.9, endAlpha: 0.45, width_m: 0.6, leastWidth_px: 2.5 }
      : {
          color: this.colorOf(track),
          alpha: 0.75 * strength,
          endAlpha: 0.2 * strength,
          width_m: 0.3,
          leastWidth_px: 1.25,
        };
    if (this.options.past) this.drawMoving(this.pathsOf(track, this.index - before, this.index), past);
    if (this.options.future) this.drawMoving(this.pathsOf(track, this.index, this.index + after), future);
  }

  /** @param {number[][]} paths @param {import("l5kit/paint_webgl").Stroke} stroke */
  drawMoving(paths, stroke) {
    for (const path of paths) if (spread(path) >= MOVES_FROM_M) this.paths.line(path, stroke);
  }

  /** @param {number} track track whose whole path is drawn */
  drawWhole(track) {
    const widths = { width_m: 0.5, leastWidth_px: 2.5 };
    for (const path of this.pathsOf(track, 0, this.index))
      this.paths.line(path, { color: this.tones.past, alpha: 0.85, ...widths });
    const color = this.colorOf(track);
    for (const path of this.pathsOf(track, this.index, this.numFrames - 1))
      this.paths.line(path, { color, alpha: 0.95, ...widths });
  }

  /** Draw surfaces first, then edges and marks, so that overlapping boxes are both visible. */
  drawBoxes() {
    const meeting = overlapping(this.shown);
    const boxes = this.shown.map((box) => ({
      drawn: drawnBox(box, this.scale),
      strength: this.isFaint(box) ? FAINT : 1,
      opacity: meeting.has(box) ? OVERLAPPING : 1,
    }));
    for (const { drawn, strength, opacity } of boxes) this.drawSurface(drawn, strength * opacity);
    for (const { drawn, strength } of boxes) this.drawEdge(drawn, strength);
  }

  /** @param {Box} box @returns {number} */
  toneOf({ track, row }) {
    return track === EGO_TRACK ? EGO_TONE : (this.colors[this.arrays.agent_label[row]] ?? this.colors[0]);
  }

  /** @param {Box} box @param {number} strength */
  drawSurface(box, strength) {
    const corners = outline(box, this.scale);
    if (box.track === EGO_TRACK)
      this.boxes.line(
        outline(box, this.scale, RIM_M / 2),
        { color: this.tones.mark, width_m: RIM_M, leastWidth_px: 2 },
        true,
      );
    this.boxes.fillConvex(corners, this.toneOf(box), strength);
  }

  /** @param {Box} box @param {number} strength */
  drawEdge(box, strength) {
    this.boxes.line(
      outline(box, this.scale),
      {
        color: shade(this.toneOf(box), this.tones.boxEdge),
        alpha: Math.min(1, 1.6 * strength),
        width_m: 0,
        leastWidth_px: 1.25,
      },
      true,
    );
    if (box.length * this.scale >= MARK_FROM_PX) this.drawHeading(box, strength);
  }

  /** @param {Box} box @param {number} strength */
  drawHeading(box, strength) {
    const tip = 0.42 * box.length;
    const side = 0.3 * Math.min(box.width, box.length);
    const tail = tip - 1.2 * side;
    const arrow = [...pointOf(box, tail, side), ...pointOf(box, tip, 0), ...pointOf(box, tail, -side)];
    const stroke = {
      color: this.tones.mark,
      alpha: 0.92 * Math.min(1, 1.6 * strength),
      width_m: Math.min(0.17, 0.1 * box.width),
      leastWidth_px: 1.25,
    };
    this.boxes.line(arrow, stroke);
    this.boxes.line([box.x, box.y, ...pointOf(box, tip, 0)], stroke);
  }

  /** @param {Box} box */
  drawSelection(box) {
    const ring = outline(box, this.scale, 3.5 / this.scale);
    this.boxes.line(ring, { color: this.tones.ground, alpha: 0.9, width_m: 0, leastWidth_px: 4.5 }, true);
    this.boxes.line(ring, { color: this.tones.select, width_m: 0, leastWidth_px: 2 }, true);
  }

  /**
   * @param {number} x metres from the origin
   * @param {number} y
   * @param {number} scale CSS pixels per metre
   * @returns {number | null} track at the point: the nearest, or the smallest of those that contain it
   */
  pick(x, y, scale) {
    let best = null;
    for (const box of this.shown) {
      const distance = distanceTo(drawnBox(box, scale), x, y);
      const size = box.length * box.width;
      if (distance > PICK_PX / scale) continue;
      if (!best || distance < best.distance || (distance === best.distance && size <= best.size))
        best = { track: box.track, distance, size };
    }
    return best?.track ?? null;
  }

  destroy() {
    this.paths.destroy();
    this.boxes.destroy();
    this.node.destroy({ children: true });
  }
}
