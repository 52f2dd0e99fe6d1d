import assert from "node:assert/strict";
import { test } from "node:test";
import { closeRange, offRoadRange, rangeNamed, speedRange, yawRange } from "l5kit/plot_ranges";
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

test("axes hold what they show, and 0", () => {
  for (const axis of ["speed", "close", "off_road", "values"]) {
    const [low, high] = rangeNamed(axis)(0, 100);
    assert.ok(low <= 0 && high >= 100, axis);
  }
  assert.ok(isClose(rangeNamed("values")(-20, -10), [-22, 0]));
  assert.ok(isClose(rangeNamed("values")(5, 10), [0, 11]));
  assert.deepEqual(rangeNamed("values")(0, 0), [0, 1]);
});
