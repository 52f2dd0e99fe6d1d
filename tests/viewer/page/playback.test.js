import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import { frameAt, Playback } from "l5kit/playback";

describe("the frame at a time", () => {
  for (const [clock, frame] of [
    [-1, 0],
    [0, 0],
    [0.09, 0],
    [0.1, 1],
    [0.29, 1],
    [0.3, 3],
    [9, 3],
  ]) {
    test(`${clock} s`, () => assert.equal(frameAt([0, 0.1, 0.3, 0.3], clock), frame));
  }
});

describe("playback", () => {
  let now;
  let due;
  let shown;
  let states;
  let playback;

  beforeEach(() => {
    now = 1000;
    due = new Map();
    let number = 0;
    mock.method(performance, "now", () => now);
    globalThis.requestAnimationFrame = (act) => {
      number += 1;
      due.set(number, act);
      return number;
    };
    globalThis.cancelAnimationFrame = (request) => due.delete(request);
    shown = [];
    states = 0;
    const onState = () => {
      states += 1;
    };
    playback = new Playback({ onFrame: (frame) => shown.push(frame), onState });
    playback.setTimes(Float64Array.of(0, 0.1, 0.2, 0.3), 0.4);
  });
  afterEach(() => {
    mock.restoreAll();
    delete globalThis.requestAnimationFrame;
    delete globalThis.cancelAnimationFrame;
  });

  /** Let the browser draw after some milliseconds. */
  function draw(after_ms) {
    now += after_ms;
    const [[request, act]] = due;
    due.delete(request);
    act(now);
  }

  test("shows the frames in real time and stops at the end", () => {
    playback.play();
    for (const after_ms of [50, 60, 110, 100, 50]) draw(after_ms);
    assert.deepEqual(shown, [1, 2, 3]);
    assert.ok(playback.playing, "the last frame stays as long as the others");
    draw(40);
    assert.ok(!playback.playing);
    assert.equal(due.size, 0);
    assert.equal(states, 2);
  });
  test("skips frames where drawing is slow", () => {
    playback.play();
    draw(250);
    assert.deepEqual(shown, [2]);
  });
  test("runs at its speed", () => {
    playback.setSpeed(0.5);
    playback.play();
    draw(190);
    assert.deepEqual(shown, []);
    draw(20);
    assert.deepEqual(shown, [1]);
  });
  test("starts over at the end when it loops, or when it is played again", () => {
    playback.setLoop(true);
    playback.play();
    draw(350);
    draw(100);
    assert.deepEqual(shown, [3, 0]);
    assert.ok(playback.playing);
    playback.setLoop(false);
    draw(500);
    assert.equal(playback.frame, 3);
    playback.play();
    assert.equal(playback.frame, 0);
  });
  test("goes on where it was after the page was hidden", () => {
    playback.setTimes(Float64Array.of(0, 1, 2, 3, 4), 5);
    playback.play();
    draw(60000);
    assert.deepEqual(shown, [1]);
  });
  test("steps pause and stay within the scene", () => {
    playback.play();
    playback.step(1);
    assert.ok(!playback.playing);
    playback.step(-5);
    playback.step(Infinity);
    assert.deepEqual(shown, [1, 0, 3]);
  });
  test("plays on from where it was sought", () => {
    playback.seek(1.6);
    playback.play();
    draw(110);
    assert.deepEqual(shown, [2, 3]);
  });
  test("a frame that is shown already is not shown again", () => {
    playback.seek(0);
    playback.seek(-3);
    assert.deepEqual(shown, []);
  });
  test("a scene of one frame, or none, does not play", () => {
    for (const times of [[0], []]) {
      playback.setTimes(Float64Array.from(times), 0.1);
      playback.toggle();
      playback.seek(5);
      assert.deepEqual([playback.playing, playback.frame], [false, 0]);
    }
  });
  test("another scene begins paused at its start", () => {
    playback.toggle();
    draw(150);
    playback.setTimes(Float64Array.of(0, 0.1), 0.2);
    assert.deepEqual([playback.playing, playback.frame, playback.numFrames], [false, 0, 2]);
    assert.equal(due.size, 0);
  });
  test("a mirror shows the time of another clock and does not run", () => {
    playback.mirror({ time_s: 0.2, playing: true, speed: 2, loop: true });
    assert.deepEqual([playback.playing, playback.speed, playback.loop, states], [true, 2, true, 1]);
    assert.equal(due.size, 0);
    assert.deepEqual(shown, [2]);
    playback.mirror({ time_s: 99, playing: true, speed: 2, loop: true });
    assert.deepEqual([shown.at(-1), states], [3, 1]);
  });
  test("a clock that runs stops when it mirrors another, and runs again when it leads", () => {
    playback.play();
    playback.mirror({ time_s: 0.1, playing: true, speed: 1, loop: false });
    assert.equal(due.size, 0);
    playback.lead();
    draw(110);
    assert.deepEqual(shown, [1, 2]);
    playback.pause();
    playback.mirror({ time_s: 0.1, playing: false, speed: 1, loop: false });
    playback.lead();
    assert.deepEqual([playback.playing, due.size], [false, 0]);
  });
  test("toggling pauses what plays", () => {
    playback.toggle();
    playback.toggle();
    assert.ok(!playback.playing);
  });
});
