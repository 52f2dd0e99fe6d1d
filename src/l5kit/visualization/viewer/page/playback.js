// @ts-check
/** The clock of the player, which selects the frame; it skips frames when drawing is slow, and never queues them. */

const LONGEST_STEP_S = 1; // after a pause of the page (a hidden tab), playback resumes where it was

export const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];

/** Plays the frames of a scene in real time. */
export class Playback {
  /**
   * @param {object} hooks
   * @param {(frame: number) => void} hooks.onFrame called when the frame has changed
   * @param {() => void} hooks.onState called when playing, speed or loop has changed
   */
  constructor({ onFrame, onState }) {
    this.onFrame = onFrame;
    this.onState = onState;
    /** @type {Float64Array} */
    this.time_s = new Float64Array(0);
    this.duration_s = 0;
    this.frame = 0;
    this.playing = false;
    this.speed = 1;
    this.loop = false;
    this.clock_s = 0;
    this.lastTick_ms = 0;
    this.request = 0;
    this.isMirror = false; // whether it follows another clock
  }

  /** @returns {number} */
  get numFrames() {
    return this.time_s.length;
  }

  /**
   * Load another scene, paused at its first frame.
   * @param {Float64Array} time_s seconds since the first frame, non-decreasing, (F,)
   * @param {number} duration_s to the end of the last frame
   */
  setTimes(time_s, duration_s) {
    this.pause();
    this.time_s = time_s;
    this.duration_s = duration_s;
    this.frame = 0;
    this.clock_s = 0;
  }

  /** Play from here, or from the start if the last frame is shown. */
  play() {
    if (this.playing || this.numFrames < 2) return;
    if (this.frame === this.numFrames - 1) this.seek(0);
    this.playing = true;
    this.lastTick_ms = performance.now();
    this.request = requestAnimationFrame((now) => this.tick(now));
    this.onState();
  }

  /** Pause at the current frame. */
  pause() {
    if (!this.playing) return;
    this.playing = false;
    cancelAnimationFrame(this.request);
    this.onState();
  }

  /** Toggle playing. */
  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  /** @param {number} frame clamped to the scene */
  seek(frame) {
    if (!this.numFrames) return;
    const due = Math.min(Math.max(Math.round(frame), 0), this.numFrames - 1);
    this.clock_s = this.time_s[due];
    this.show(due);
  }

  /** Pause, then step by some frames. @param {number} frames negative for back */
  step(frames) {
    this.pause();
    this.seek(this.frame + frames);
  }

  /** @param {number} speed 1 is real time */
  setSpeed(speed) {
    this.speed = speed;
    this.onState();
  }

  /** @param {boolean} loop whether playback restarts at the end */
  setLoop(loop) {
    this.loop = loop;
    this.onState();
  }

  /**
   * Follow another clock, which runs instead of this one.
   * @param {{time_s: number, playing: boolean, speed: number, loop: boolean}} other
   */
  mirror({ time_s, playing, speed, loop }) {
    cancelAnimationFrame(this.request);
    this.isMirror = true;
    const isNew = playing !== this.playing || speed !== this.speed || loop !== this.loop;
    Object.assign(this, { playing, speed, loop });
    if (this.numFrames) {
      this.clock_s = Math.min(Math.max(time_s, 0), this.duration_s);
      this.show(frameAt(this.time_s, this.clock_s + 1e-4));
    }
    if (isNew) this.onState();
  }

  /** Run again, after following another clock. */
  lead() {
    if (!this.isMirror) return;
    this.isMirror = false;
    if (!this.playing) return;
    this.playing = false;
    this.play();
  }

  /** @param {number} now_ms time of this animation frame */
  tick(now_ms) {
    if (!this.playing) return;
    const step_s = Math.min(Math.max(now_ms - this.lastTick_ms, 0) / 1000, LONGEST_STEP_S);
    this.lastTick_ms = now_ms;
    this.clock_s += step_s * this.speed;
    if (this.clock_s >= this.duration_s && this.loop) this.clock_s %= this.duration_s;
    this.show(frameAt(this.time_s, this.clock_s));
    if (this.clock_s >= this.duration_s) this.pause();
    else this.request = requestAnimationFrame((next) => this.tick(next));
  }

  /** @param {number} frame */
  show(frame) {
    if (frame === this.frame) return;
    this.frame = frame;
    this.onFrame(frame);
  }
}

/**
 * Return the last frame at or before a time.
 * @param {ArrayLike<number>} time_s non-decreasing, (F,)
 * @param {number} clock_s
 * @returns {number} 0 before the first
 */
export function frameAt(time_s, clock_s) {
  let low = 0;
  let high = time_s.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (time_s[middle] <= clock_s) low = middle;
    else high = middle - 1;
  }
  return low;
}
