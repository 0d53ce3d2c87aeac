// The view "Keys and access".

import { html } from "./preact.js";

/** Shows the view. `app` has the functions of the page, see app.js. */
export function AccessView({ app }) {
  return html`<section class="panel" aria-labelledby="view-title"><h2 id="view-title" tabindex="-1">Keys and access</h2></section>`;
}
