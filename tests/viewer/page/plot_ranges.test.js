import assert from "node:assert/strict";
import { test } from "node:test";
import { closeRange, offRoadRange, speedRange, yawRange } from "l5kit/plot_ranges";
import { isClose } from "./scenes.js";

test("speeds are shown from 0 to a tenth above the most, and at least to 2 m/s", () => {
  assert.ok(isClose(speedRange(5, 10), [0, 11]));
  assert.deepEqual(speedRange(0, 0), [0, 2]);
});

test("yaws are shown over 20 degrees at least, in the middle", () => {
  assert.deepEqual(yawRange(90, 90), [80, 100]);
  assert.deepEqual(yawRange(0, 10), [-5, 15]);
  assert.ok(isClose(yawRange(0, 100), [-8, 108]));
});

test("times to collision and distances from the road are shown as far as they are known", () => {
  assert.deepEqual(closeRange(0.5, 0.9), [0, 3]);
  assert.deepEqual(offRoadRange(0, 0), [0, 0.55]);
  assert.ok(offRoadRange(0, 0.5)[1] >= 0.5);
});
