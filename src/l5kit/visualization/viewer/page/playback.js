// @ts-check
/** The clock of the player: which frame is due. It skips frames when drawing is slow and never queues them. */

const LONGEST_STEP_S = 1; // after a pause of the page (a hidden tab) playback goes on where it was

export const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];

/** Plays the frames of one scene after another in real time. */
export class Playback {
  /**
   * @param {object} hooks
   * @param {(frame: number) => void} hooks.onFrame the frame to show has changed
   * @param {() => void} hooks.onState playing, speed or loop has changed
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
    this.isMirror = false; // whether another clock runs in its place
  }

  /** @returns {number} */
  get numFrames() {
    return this.time_s.length;
  }

  /**
   * Hold another scene, at its first frame, paused.
   * @param {Float64Array} time_s seconds since the first frame, never falling, (F,)
   * @param {number} duration_s until the end of the last frame
   */
  setTimes(time_s, duration_s) {
    this.pause();
    this.time_s = time_s;
    this.duration_s = duration_s;
    this.frame = 0;
    this.clock_s = 0;
  }

  /** Play from here; from the start where the last frame is shown. */
  play() {
    if (this.playing || this.numFrames < 2) return;
    if (this.frame === this.numFrames - 1) this.seek(0);
    this.playing = true;
    this.lastTick_ms = performance.now();
    this.request = requestAnimationFrame((now) => this.tick(now));
    this.onState();
  }

  /** Stay at the frame that is shown. */
  pause() {
    if (!this.playing) return;
    this.playing = false;
    cancelAnimationFrame(this.request);
    this.onState();
  }

  /** Play when paused, pause when playing. */
  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  /** @param {number} frame the nearest frame that exists is shown */
  seek(frame) {
    if (!this.numFrames) return;
    const due = Math.min(Math.max(Math.round(frame), 0), this.numFrames - 1);
    this.clock_s = this.time_s[due];
    this.show(due);
  }

  /** Pause, then go some frames on. @param {number} frames negative: back */
  step(frames) {
    this.pause();
    this.seek(this.frame + frames);
  }

  /** @param {number} speed 1 is real time */
  setSpeed(speed) {
    this.speed = speed;
    this.onState();
  }

  /** @param {boolean} loop whether the end is followed by the start */
  setLoop(loop) {
    this.loop = loop;
    this.onState();
  }

  /**
   * Show what another clock shows, which runs in the place of this one.
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

  /** Run again, after another clock did. */
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
 * The last frame whose time has come.
 * @param {ArrayLike<number>} time_s never falling, (F,)
 * @param {number} clock_s
 * @returns {number} 0 where no time has come
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
