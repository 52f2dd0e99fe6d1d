// @ts-check
/** The scene viewer's page: starts it, and hands `l5kitViewer` to whoever drives the page from outside, as tests do. */

import { messageOf } from "l5kit/format";
import { Viewer } from "l5kit/viewer";

const viewer = new Viewer();
const ready = viewer.start().catch((error) => viewer.stage.showError("The viewer cannot start", messageOf(error)));
Object.assign(window, {
  l5kitViewer: {
    ready,
    get birdseye() {
      return viewer.view.birdseye;
    },
    player: viewer.playback,
    state: () => viewer.state(),
  },
});
