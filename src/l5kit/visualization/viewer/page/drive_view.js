// @ts-check
/** The drive of the open scene in all parts of the page: view, marks, curves and panel. */

import { byId } from "l5kit/dom";
import { DriveCurves } from "l5kit/drive_curves";
import { DriveModel } from "l5kit/drive_model";
import { DrivePanel } from "l5kit/drive_panel";
import { showMarks } from "l5kit/failure_marks";
import { frameBefore } from "l5kit/failures";

/** @typedef {import("l5kit/playback").Playback} Playback */

/** Shows the drive of the current scene, if any. */
export class DriveView {
  /**
   * @param {Playback} playback
   * @param {object} hooks
   * @param {(drive: DriveModel | null) => void} hooks.onDrive called when the drive has changed
   * @param {() => import("l5kit/theme").Theme} hooks.theme
   */
  constructor(playback, { onDrive, theme }) {
    this.playback = playback;
    this.onDrive = onDrive;
    /** @type {DriveModel | null} */
    this.model = null;
    const onPlay = (/** @type {number} */ failure) => this.play(failure);
    this.curves = new DriveCurves({ onSeek: (frame) => playback.seek(frame), onPlay, theme });
    this.panel = new DrivePanel(onPlay);
  }

  /** @param {import("l5kit/unpack").PackedDrive | null} packed of the scene of the clock */
  setDrive(packed) {
    this.model = packed && new DriveModel(packed);
    const { time_s } = this.playback;
    this.onDrive(this.model);
    this.curves.setDrive(this.model, time_s);
    this.panel.setDrive(this.model, time_s);
    showMarks(byId("failure-marks"), this.model, time_s, (failure) => this.play(failure));
  }

  /** Play a failure, starting two seconds before it. @param {number} number */
  play(number) {
    const failure = this.model?.failures[number];
    if (!this.model || !failure) return;
    this.model.at = number;
    this.playback.pause();
    this.playback.seek(frameBefore(failure, this.playback.time_s));
    this.playback.play();
  }

  /** Play the next or the previous failure. @param {number} by 1 or -1 */
  playNext(by) {
    const next = this.model?.nextFailure(by) ?? null;
    if (next !== null) this.play(next);
  }

  /** @param {number} frame */
  showFrame(frame) {
    this.curves.showFrame(frame);
  }

  /** Draw in the colours of the theme. */
  themeChanged() {
    this.curves.themeChanged();
  }
}
