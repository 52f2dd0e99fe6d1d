// @ts-check
/** Additional drawings of a simulation: outlines of logged boxes of moved road users, and the plan of the frame. */

import { drawnBox, outline, pointOf } from "l5kit/boxes";
import { EGO_COLOR, toNumber } from "l5kit/palette";
import { Path } from "l5kit/tracks";
import { Container } from "pixi.js";

const EGO_TONE = toNumber(EGO_COLOR);
const PATH_FRAMES = 50; // of the logged path of the AV, before and after the frame
const SPACING_M = 0.3;

/** @typedef {import("l5kit/boxes").Box} Box */

/** The ghosts of a drive. Coordinates are metres from the origin of its scene. */
export class GhostLayer {
  /**
   * @param {import("l5kit/drive_model").DriveModel} drive
   * @param {[number, number]} egoSize_m
   * @param {import("l5kit/paint_webgl").Frame} frame of a painter
   */
  constructor(drive, egoSize_m, frame) {
    this.drive = drive;
    this.egoSize_m = egoSize_m;
    this.batch = frame.batch();
    this.node = new Container();
    this.node.addChild(this.batch.node);
  }

  /**
   * @param {number} index of the frame
   * @param {number} scale CSS pixels per metre
   * @param {{ghosts: boolean, plan: boolean}} options
   * @param {import("l5kit/palette").Tones} tones
   */
  draw(index, scale, options, tones) {
    this.batch.clear();
    if (options.plan) this.drawPlan(index, tones);
    if (options.ghosts) {
      for (const box of this.drive.agentGhosts(index)) this.drawGhost(drawnBox(box, scale), scale, tones.ghost);
      this.drawWay(index);
      const ego = this.drive.egoGhost(index, this.egoSize_m);
      if (ego) this.drawGhost(drawnBox(ego, scale), scale, EGO_TONE);
    }
    this.batch.commit();
  }

  /** @param {number} index @param {import("l5kit/palette").Tones} tones */
  drawPlan(index, tones) {
    const plan = this.drive.planAt(index);
    this.batch.line(plan, { color: tones.ground, alpha: 0.75, width_m: 0.7, leastWidth_px: 5 });
    this.batch.line(plan, { color: tones.plan, alpha: 1, width_m: 0.4, leastWidth_px: 3 });
  }

  /** Draw the logged path of the AV. @param {number} index */
  drawWay(index) {
    const { log_xy } = this.drive.arrays;
    const path = new Path(SPACING_M);
    const last = Math.min(index + PATH_FRAMES, log_xy.length / 2 - 1);
    for (let frame = Math.max(index - PATH_FRAMES, 0); frame <= last; frame += 1)
      path.add(log_xy[2 * frame], log_xy[2 * frame + 1]);
    this.batch.line(path.close(), { color: EGO_TONE, alpha: 0.45, width_m: 0, leastWidth_px: 1.25 });
  }

  /** @param {Box} box @param {number} scale @param {number} color */
  drawGhost(box, scale, color) {
    this.batch.line(outline(box, scale), { color, alpha: 0.95, width_m: 0.12, leastWidth_px: 1.75 }, true);
    this.batch.line([box.x, box.y, ...pointOf(box, 0.5 * box.length, 0)], { color, alpha: 0.95, width_m: 0.12 });
  }

  destroy() {
    this.batch.destroy();
    this.node.destroy({ children: true });
  }
}
