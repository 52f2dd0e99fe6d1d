import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { firstScene, placeInScene, sceneProblems } from "l5kit/places";
import { SceneModel } from "l5kit/scene_model";
import { EGO_TRACK } from "l5kit/tracks";
import { packedScene } from "./scenes.js";

const DATASET = { only: null, numScenes: 5 };
const FILE = { only: 3, numScenes: 5 };
const all = () => true;

describe("the scene to start with", () => {
  test("is that of the address", () => {
    assert.deepEqual(firstScene({ scene: 4 }, DATASET, all), { scene: 4, problems: [] });
  });
  test("is that of the address even where it cannot be read, so that its error is seen", () => {
    assert.deepEqual(firstScene({ scene: 2 }, DATASET, () => false).scene, 2);
  });
  test("is else the first that can be read", () => {
    assert.deepEqual(
      firstScene({}, DATASET, (scene) => scene >= 2),
      { scene: 2, problems: [] },
    );
    assert.deepEqual(firstScene({}, DATASET, () => false).scene, 0);
    assert.deepEqual(firstScene({}, DATASET, (scene) => scene !== 3, [3, 1, 0]).scene, 1);
  });
  test("is the first where the address names one that is not there, which is told", () => {
    const problems = ["scene=5 (this dataset has scenes 0 to 4)"];
    assert.deepEqual(
      firstScene({ scene: 5 }, DATASET, (scene) => scene >= 1),
      { scene: 1, problems },
    );
  });
  test("is that of an exported file", () => {
    assert.deepEqual(firstScene({}, FILE, all), { scene: 3, problems: [] });
    assert.deepEqual(firstScene({ scene: 3 }, FILE, all).problems, []);
    const problems = ["scene=0 (this file holds scene 3 only)"];
    assert.deepEqual(firstScene({ scene: 0 }, FILE, all), { scene: 3, problems });
  });
  test("is none in a dataset without scenes", () => {
    assert.equal(firstScene({ scene: 1 }, { only: null, numScenes: 0 }, all).scene, null);
  });
});

test("an address without a scene has no problem with it", () => {
  assert.deepEqual(sceneProblems({}, DATASET), []);
  assert.deepEqual(sceneProblems({}, FILE), []);
});

describe("within a scene of three frames", () => {
  const model = new SceneModel(packedScene([[{ track: 0 }], [{ track: 1 }], [{ track: 2 }]]));
  const cases = [
    [{}, undefined, null, []],
    [{ frame: 0 }, 0, null, []],
    [{ frame: 2, track: "345" }, 2, 2, []],
    [{ frame: 3 }, undefined, null, ["frame=3 (scene 4 has frames 0 to 2)"]],
    [{ track: "av" }, undefined, EGO_TRACK, []],
    [{ track: "8", frame: 1 }, 1, null, ["track=8 (scene 4 has no such track)"]],
    [{ track: "7" }, undefined, 0, []],
  ];
  for (const [place, frame, track, problems] of cases) {
    test(JSON.stringify(place), () => assert.deepEqual(placeInScene(place, model), { frame, track, problems }));
  }
});
