// @ts-check
/** Copying of a link to the current view. */

import { notice } from "l5kit/notices";

/** @param {string} link */
export async function copyLink(link) {
  try {
    await navigator.clipboard.writeText(link);
    notice("The link is copied.");
  } catch {
    notice(`The browser does not let this page copy. The link: ${link}`);
  }
}
