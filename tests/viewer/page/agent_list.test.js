import assert from "node:assert/strict";
import { test } from "node:test";
import { trackOf } from "l5kit/agent_list";
import { EGO_TRACK } from "l5kit/tracks";

test("a value of the list is a track, the AV, or nobody: not the first track", () => {
  assert.deepEqual(["0", "17", String(EGO_TRACK), ""].map(trackOf), [0, 17, EGO_TRACK, null]);
});
