import assert from "node:assert/strict";
import { test } from "node:test";
import { placeLabels } from "l5kit/label_places";
import { EGO_TRACK } from "l5kit/tracks";

const box = (track, x, y, yaw = 0) => ({ track, row: track, x, y, yaw, length: 4, width: 2 });
const HOW = {
  toPage: (x, y) => ({ x: 10 * x, y: 100 - 10 * y }),
  view: { scale: 10, width: 300, height: 200 },
  trackIds: ["7", "12", "345"],
  chosen: [],
  all: true,
};
const tracks = (boxes, how = {}) => placeLabels(boxes, { ...HOW, ...how }).map(({ track }) => track);

test("a label stands above its box, nine pixels from it", () => {
  assert.deepEqual(placeLabels([box(2, 5, 3)], HOW), [{ track: 2, name: "345", x: 50, y: 51 }]);
  const [{ y }] = placeLabels([box(2, 5, 3, Math.PI / 2)], HOW);
  assert.equal(y, 41, "the box reaches twice as far north");
});

test("of labels that would overlap the one of the lower track is shown", () => {
  assert.deepEqual(tracks([box(1, 5, 3), box(0, 5.5, 3)]), [0]);
  assert.deepEqual(tracks([box(1, 5, 3), box(0, 5, 4.3)]), [0]);
  assert.deepEqual(tracks([box(1, 5, 3), box(0, 5, 4.4)]), [0, 1], "fourteen pixels are room enough");
});

test("a label that is wider needs more room beside it", () => {
  const gap = 1.5;
  assert.deepEqual(tracks([box(0, 5, 3), box(1, 5 + gap, 3)]), [0, 1]);
  assert.deepEqual(tracks([box(2, 5, 3), box(1, 5 + gap, 3)]), [1]);
});

test("chosen tracks come first and have labels at any zoom", () => {
  assert.deepEqual(tracks([box(0, 5, 3), box(1, 5, 3)], { chosen: [null, 1] }), [1]);
  const far = { view: { ...HOW.view, scale: 4.9 } };
  assert.deepEqual(tracks([box(0, 5, 3), box(1, 15, 3)], { ...far, chosen: [1] }), [1]);
  assert.deepEqual(tracks([box(0, 5, 3)], { view: { ...HOW.view, scale: 5 } }), [0]);
  assert.deepEqual(tracks([box(0, 5, 3), box(1, 15, 3)], { all: false, chosen: [1] }), [1]);
});

test("the AV has a label only when it is chosen", () => {
  assert.deepEqual(placeLabels([box(EGO_TRACK, 5, 3)], HOW), []);
  assert.deepEqual(placeLabels([box(EGO_TRACK, 5, 3)], { ...HOW, chosen: [EGO_TRACK] })[0].name, "AV");
});

test("nothing is placed outside the view", () => {
  const places = [box(0, -0.1, 3), box(0, 30.1, 3), box(0, 5, -12.1), box(0, 5, 8.2)];
  for (const place of places) assert.deepEqual(tracks([place]), []);
  assert.deepEqual(tracks([box(0, 0, 3), box(1, 30, 3)]), [0, 1]);
});
