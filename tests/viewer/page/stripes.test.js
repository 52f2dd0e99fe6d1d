import assert from "node:assert/strict";
import { test } from "node:test";
import { stripesOf } from "l5kit/stripes";
import { isClose } from "./scenes.js";

/** left, bottom, right, top */
function bounds(stripe) {
  const [xs, ys] = [0, 1].map((axis) => stripe.filter((_, at) => at % 2 === axis));
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}

/** Area by the shoelace formula. */
function area(stripe) {
  let twice = 0;
  for (let at = 0; at < stripe.length; at += 2) {
    const next = (at + 2) % stripe.length;
    twice += stripe[at] * stripe[next + 1] - stripe[next] * stripe[at + 1];
  }
  return Math.abs(twice) / 2;
}

test("a crosswalk of 3 m x 2 m has three stripes across its longer side, half a metre wide, in its middle", () => {
  const stripes = stripesOf([10, 0, 13, 0, 13, 2, 10, 2]);
  const expected = [
    [10.25, 0, 10.75, 2],
    [11.25, 0, 11.75, 2],
    [12.25, 0, 12.75, 2],
  ];
  assert.equal(stripes.length, 3);
  stripes.forEach((stripe, at) => {
    assert.ok(isClose(bounds(stripe), expected[at]), `${stripe}`);
  });
});

test("stripes of a crosswalk that lies askew are as large", () => {
  const [cos, sin] = [Math.cos(0.7), Math.sin(0.7)];
  const turned = [
    [0, 0],
    [0, 2],
    [3, 2],
    [3, 0],
  ].flatMap(([x, y]) => [x * cos - y * sin, x * sin + y * cos]);
  const stripes = stripesOf(turned);
  assert.ok(isClose(stripes.map(area), [1, 1, 1]));
});

test("stripes are cut to the outline", () => {
  const stripes = stripesOf([0, 0, 4, 0, 0, 3]);
  assert.equal(stripes.length, 5, "along the hypotenuse of 5 m");
  const total = stripes.reduce((sum, stripe) => sum + area(stripe), 0);
  assert.ok(total > 2.5 && total < 3.5, `${total} of 6 square metres`);
});

test("a long outline has at most 200 stripes", () => {
  assert.equal(stripesOf([0, 0, 1000, 0, 1000, 2, 0, 2]).length, 200);
});

test("what is shorter than a metre, or is one point, has none", () => {
  assert.deepEqual(stripesOf([0, 0, 0.9, 0, 0.9, 0.5, 0, 0.5]), []);
  assert.deepEqual(stripesOf([1, 1, 1, 1, 1, 1]), []);
});
