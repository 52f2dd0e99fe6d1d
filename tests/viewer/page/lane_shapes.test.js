import assert from "node:assert/strict";
import { test } from "node:test";
import { bordersOf, lanesAt, midlineOf, pointAlong } from "l5kit/lane_shapes";
import { isClose } from "./scenes.js";

/** Each lane as borders in its direction; outlines run along the left one and back along the right one. */
function outlines(...lanes) {
  const starts = [0];
  const xy = [];
  for (const { left, right } of lanes) {
    xy.push(...left.flat(), ...right.toReversed().flat());
    starts.push(xy.length / 2);
  }
  return {
    lane_starts: Uint32Array.from(starts),
    lane_left_counts: Uint32Array.from(lanes, ({ left }) => left.length),
    lane_xy: Float32Array.from(xy),
  };
}

const east = {
  left: [
    [0, 2],
    [4, 2],
    [20, 2],
  ],
  right: [
    [0, -2],
    [20, -2],
  ],
}; // prettier-ignore
const north = {
  left: [
    [9, -10],
    [9, 10],
  ],
  right: [
    [13, -10],
    [13, 10],
  ],
}; // prettier-ignore
const both = outlines(east, north);

test("borders have the direction of their lane", () => {
  assert.deepEqual(bordersOf(both, 0), { left: [0, 2, 4, 2, 20, 2], right: [0, -2, 20, -2] });
  assert.deepEqual(bordersOf(both, 1), { left: [9, -10, 9, 10], right: [13, -10, 13, 10] });
});

test("a point is in the lanes around it, that with the nearest midline first", () => {
  assert.deepEqual(lanesAt(both, 5, 1), [0]);
  assert.deepEqual(lanesAt(both, 11, 8), [1]);
  assert.deepEqual(lanesAt(both, 11.1, 1.5), [1, 0]);
  assert.deepEqual(lanesAt(both, 12.5, 0.1), [0, 1]);
  assert.deepEqual(lanesAt(both, 5, 2.1), []);
  assert.deepEqual(lanesAt(both, -1, 0), []);
});

test("points along a line are told by parts of its length", () => {
  assert.ok(isClose(pointAlong([0, 0, 1, 0, 1, 3], 0.5), [1, 1]));
  assert.ok(isClose(pointAlong([0, 0, 1, 0, 1, 3], 0), [0, 0]));
  assert.ok(isClose(pointAlong([0, 0, 1, 0, 1, 3], 1), [1, 3]));
  assert.deepEqual(pointAlong([7, 8], 0.5), [7, 8]);
  assert.deepEqual(pointAlong([7, 8, 7, 8], 0.5), [7, 8]);
});

test("midlines run amid the borders, from the start of the lane to its end", () => {
  const line = midlineOf(both, 0);
  assert.ok(isClose(line.slice(0, 2), [0, 0]));
  assert.ok(isClose(line.slice(-2), [20, 0]));
});
