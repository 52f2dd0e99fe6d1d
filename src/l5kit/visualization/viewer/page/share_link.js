// @ts-check
/** Copying of a link to what is shown. */

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
