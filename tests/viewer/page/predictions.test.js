import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { PredictionModel } from "l5kit/predictions";
import { SceneModel } from "l5kit/scene_model";
import { EGO_TRACK } from "l5kit/tracks";
import { isClose, packedScene } from "./scenes.js";

const NAN = Number.NaN;

/** Track 0 drives 1 m a frame along x from (0, 5) and is last seen in frame 2; the AV drives along the x axis. */
function model() {
  const frames = [0, 1, 2].map((x) => [
    { track: 0, x, y: 5 },
    { track: 1, x: 50, y: 50 },
  ]);
  const scene = new SceneModel(packedScene([...frames, [{ track: 1, x: 50, y: 50 }]]));
  const facts = { name: "pred.csv", num_modes: 2, num_steps: 2, num_lost: 0 };
  const arrays = {
    starts: Uint32Array.of(0, 2, 3, 3, 4),
    agent_row: Int32Array.of(0, -1, 2, -1),
    confidence: Float32Array.of(0.25, 0.75, 1, NAN, 0.5, 0.5, 1, NAN),
    // biome-ignore format: one prediction a line
    xy: Float32Array.of(
      1, 5, 2, 5,   1, 8, 2, 9, // of track 0 in frame 0: right, and 3 m and 4 m beside it
      1, 0, 3, 0,   NAN, NAN, NAN, NAN, // of the AV in frame 0: 1 m too far at last
      2, 6, 3, 5,   2, 5, 3, 5, // of track 0 in frame 1, which the log has in frame 2 for the last time
      9, 9, 9, 9,   NAN, NAN, NAN, NAN,
    ),
  };
  return new PredictionModel({ facts, arrays }, scene);
}

test("predictions are those of the frame, each of its track", () => {
  assert.deepEqual(model().at(0), [0, 1]);
  assert.deepEqual(
    [0, 1, 2, 3].map((prediction) => model().trackOf(prediction)),
    [0, EGO_TRACK, 0, EGO_TRACK],
  );
  assert.equal(model().of(0, 1), 2);
  assert.equal(model().of(1, 0), null);
  assert.deepEqual(model().at(2), []);
});

test("the most probable mode comes first, and modes that only fill up a row are none", () => {
  const modes = model().modes(0);
  assert.deepEqual(
    modes.map(({ confidence }) => confidence),
    [0.75, 0.25],
  );
  assert.deepEqual([...modes[0].points], [1, 8, 2, 9]);
  assert.equal(model().modes(1).length, 1);
});

test("ways begin where the agent is", () => {
  assert.deepEqual(model().placeOf(2, 1), [1, 5]);
  assert.deepEqual(model().placeOf(3, 3), [3, 0]);
});

describe("errors are distances to the log, in metres", () => {
  const cases = [
    ["of each mode, and the least", 0, 0, [3.5, 4, 0, 0], [0, 0], 2],
    ["of the AV", 1, 0, [0.5, 1], [0.5, 1], 2],
    ["ADE over known steps, FDE of none", 2, 1, [1, NAN, 0, NAN], [0, NAN], 1],
    ["none behind the end of the scene", 3, 3, [NAN, NAN], [NAN, NAN], 0],
  ];
  for (const [name, prediction, frame, expected, best, numKnown] of cases) {
    test(name, () => {
      const errors = model().errors(prediction, frame);
      assert.deepEqual(
        errors.modes.flatMap(({ ade, fde }) => [ade, fde]),
        expected,
      );
      assert.deepEqual([errors.best.ade, errors.best.fde], best);
      assert.equal(errors.numKnown, numKnown);
      assert.equal(errors.numSteps, 2);
    });
  }
});

test("frames with predictions are told as rows of frames", () => {
  assert.deepEqual(model().runs(), [
    [0, 1],
    [3, 3],
  ]);
  assert.equal(model().numPredictedFrames(), 3);
  assert.ok(isClose(model().truth(0, 0), [1, 5, 2, 5]));
});
