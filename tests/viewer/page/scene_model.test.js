import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { parseAddress } from "l5kit/address";
import { risingTimes, SceneModel, unwrappedDegrees } from "l5kit/scene_model";
import { EGO_TRACK } from "l5kit/tracks";
import { isClose, packedScene } from "./scenes.js";

/** Track 0 in frames 0, 1 and 3, track 1 in all, track 2 in frame 3. */
const FRAMES = [
  [{ track: 1 }, { track: 0, velocity: [3, 4] }],
  [
    { track: 0, velocity: [0, 2], yaw: Math.PI / 2 },
    { track: 1, label: 2 },
  ],
  [{ track: 1 }],
  [{ track: 2, x: 3, y: 4 }, { track: 1 }, { track: 0, velocity: [Number.NaN, 0], yaw: -Math.PI }],
];
const model = new SceneModel(packedScene(FRAMES));

test("rows are found by track and by frame", () => {
  assert.deepEqual([...model.rowsOf(0)], [1, 2, 7]);
  assert.deepEqual([...model.rowsOf(2)], [5]);
  assert.deepEqual(model.rowsIn(1), [2, 4]);
  assert.deepEqual([...model.frameOfRow], [0, 0, 1, 1, 2, 3, 3, 3]);
  assert.equal(model.rowOf(0, 3), 7);
  assert.equal(model.rowOf(0, 2), -1);
  assert.equal(model.rowOf(2, 0), -1);
});

test("the nearest row is that of the nearest frame, of two the earlier", () => {
  assert.equal(model.nearestRow(0, 2), 2);
  assert.equal(model.nearestRow(0, 3), 7);
  assert.equal(model.nearestRow(2, 0), 5);
});

test("tracks have ids", () => {
  assert.equal(model.trackOf("345"), 2);
  assert.equal(model.trackOf("34"), null);
});

test("ids beyond the whole numbers of JavaScript are told apart, also in an address", () => {
  const trackIds = ["9007199254740992", "9007199254740993", "18446744073709551615"];
  const large = new SceneModel(packedScene(FRAMES, { trackIds }));
  const named = trackIds.map((id) => parseAddress(`#track=${id}`).place.track ?? "");
  assert.deepEqual(named, trackIds);
  assert.deepEqual(
    named.map((id) => large.trackOf(id)),
    [0, 1, 2],
  );
});

test("speeds and distances are lengths", () => {
  assert.equal(model.speedOf(1), 5);
  assert.equal(model.distanceToEgo(5), 4, "the AV is at x = 3 in frame 3");
});

test("classes come by how often they occur", () => {
  assert.deepEqual(model.classes(), ["PERCEPTION_LABEL_CAR", "PERCEPTION_LABEL_PEDESTRIAN"]);
  const odd = new SceneModel(packedScene([[{ track: 0, label: 9 }]]));
  assert.deepEqual(odd.classes(), ["class 9"]);
});

test("series have gaps where a track is not seen or its values are not finite", () => {
  const { speed, yaw } = model.series(0);
  assert.deepEqual(speed, [5, 2, null, null]);
  assert.deepEqual(
    yaw.map((degrees) => degrees && Math.round(degrees)),
    [0, 90, null, 180],
  );
  assert.deepEqual(model.series(EGO_TRACK).speed, [10, 10, 10, 10]);
});

test("the last frame lasts as long as the others do on average", () => {
  assert.ok(isClose([model.duration_s], [0.4]));
  assert.equal(new SceneModel(packedScene([[]])).duration_s, 0.1);
  assert.equal(new SceneModel(packedScene([])).duration_s, 0);
});

describe("angles do not jump", () => {
  const cases = [
    [
      [170, -170, -150],
      [170, 190, 210],
    ],
    [
      [-170, 170],
      [-170, -190],
    ],
    [
      [0, null, 350],
      [0, null, -10],
    ],
    [
      [null, 10],
      [null, 10],
    ],
    [
      [0, 90, 180, 270, 360],
      [0, 90, 180, 270, 360],
    ],
  ];
  for (const [degrees, expected] of cases) {
    test(degrees.map(String).join(", "), () => {
      const got = unwrappedDegrees(degrees.map((value) => (value === null ? null : (value * Math.PI) / 180)));
      got.forEach((value, at) => {
        assert.ok(value === expected[at] || isClose([value], [expected[at]], 1e-9), `${got}`);
      });
    });
  }
});

describe("times never fall", () => {
  const cases = [
    [
      [0, 0.1, 0.2],
      [0, 0.1, 0.2],
    ],
    [
      [0, 0.2, 0.1, 0.3],
      [0, 0.2, 0.2, 0.3],
    ],
    [
      [0, Number.NaN, 0.3],
      [0, 0.1, 0.3],
    ],
    [
      [Number.NaN, 0.1],
      [0, 0.1],
    ],
    [
      [0, 0, 0],
      [0, 0.1, 0.2],
    ],
    [
      [0, -5],
      [0, 0.1],
    ],
    [[0], [0]],
    [[], []],
  ];
  for (const [times, expected] of cases) {
    test(times.join(", "), () => assert.ok(isClose(risingTimes(times), expected, 1e-12)));
  }
});
