import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { agentBox, distanceTo, drawnBox, outline, overlap, overlapping, pointOf } from "l5kit/boxes";
import { isClose, packedScene } from "./scenes.js";

const NORTH = { track: 0, row: 0, x: 10, y: 20, yaw: Math.PI / 2, length: 4, width: 2 };

test("a row of agents becomes a box", () => {
  const { arrays } = packedScene([[{ track: 1 }, { track: 2, x: 3, y: 4, yaw: 0.5, extent: [5, 2, 1] }]]);
  assert.deepEqual(agentBox(arrays, 1), { track: 2, row: 1, x: 3, y: 4, yaw: 0.5, length: 5, width: 2 });
});

for (const broken of [{ x: Number.NaN }, { y: Infinity }, { yaw: Number.NaN }, { extent: [Number.NaN, 1, 1] }]) {
  test(`there is no box where ${Object.keys(broken)} is not known`, () => {
    assert.equal(agentBox(packedScene([[{ track: 0, ...broken }]]).arrays, 0), null);
  });
}

test("a box is drawn with at least five pixels", () => {
  assert.deepEqual(drawnBox(NORTH, 2), { ...NORTH, length: 4, width: 2.5 });
  assert.deepEqual(drawnBox(NORTH, 0.5), { ...NORTH, length: 10, width: 10 });
});

test("ahead of a box that heads north is north, and its left is west", () => {
  assert.ok(isClose(pointOf(NORTH, 3, 0), [10, 23]));
  assert.ok(isClose(pointOf(NORTH, 0, 1), [9, 20]));
});

describe("an outline", () => {
  test("from far has four corners, counter-clockwise from ahead on the left", () => {
    assert.ok(isClose(outline(NORTH, 4.9), [9, 22, 9, 18, 11, 18, 11, 22]));
    assert.ok(isClose(outline(NORTH, 4.9, 1), [8, 23, 8, 17, 12, 17, 12, 23]));
  });
  test("from near has round corners within the square ones", () => {
    const points = outline(NORTH, 5);
    assert.equal(points.length, 2 * 16);
    for (let at = 0; at < points.length; at += 2) {
      assert.ok(Math.abs(points[at] - 10) <= 1 + 1e-9 && Math.abs(points[at + 1] - 20) <= 2 + 1e-9);
    }
    assert.ok(isClose([Math.max(...points.filter((_, at) => at % 2))], [22]), "it reaches the front");
    assert.ok(!isClose(points.slice(0, 2), [9, 22], 0.05), "the corner is cut");
  });
});

describe("the distance from a box", () => {
  const cases = [
    ["its middle", [10, 20], 0],
    ["its front edge", [10, 22], 0],
    ["ahead", [10, 25], 3],
    ["its side", [14, 20], 3],
    ["its corner", [14, 26], 5],
  ];
  for (const [name, point, metres] of cases) {
    test(name, () => assert.ok(isClose([distanceTo(NORTH, ...point)], [metres])));
  }
});

test("boxes overlap as in Python, and those that do are found", () => {
  const car = { track: 0, row: 0, x: 0, y: 0, yaw: 0, length: 4, width: 2 };
  const across = { ...car, track: 1, x: 2.9, yaw: Math.PI / 2 };
  assert.ok(overlap(car, across));
  assert.ok(overlap(across, car));
  assert.ok(!overlap(car, { ...across, x: 3.1 }));
  // corners lie nearer than the radii, but an axis of the turned box separates them
  assert.ok(!overlap(car, { ...car, x: 3.3, y: 2.6, yaw: -Math.PI / 4 }));
  const away = { ...car, track: 2, x: 50 };
  assert.deepEqual([...overlapping([car, away, across])].map(({ track }) => track).sort(), [0, 1]);
});
