// The view "Storage".

import { html } from "./preact.js";

/** Shows the view. `app` has the functions of the page, see app.js. */
export function StorageView({ app }) {
  return html`<section class="panel" aria-labelledby="view-title"><h2 id="view-title" tabindex="-1">Storage</h2></section>`;
}
