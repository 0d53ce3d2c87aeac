// The view "Pictures": the list of pictures and the details of one.

import { html } from "./preact.js";

/** Shows the desk. `app` has the functions of the page, see app.js; `path` has the identifier of the open picture, if any. */
export function PicturesView({ app, path }) {
  return html`<section class="panel" aria-labelledby="view-title"><h2 id="view-title" tabindex="-1">Pictures</h2></section>`;
}
