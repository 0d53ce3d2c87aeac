// The view "Models".

import { html } from "./preact.js";

/** Shows the view. `app` has the functions of the page, see app.js. */
export function ModelsView({ app }) {
  return html`<section class="panel" aria-labelledby="view-title"><h2 id="view-title" tabindex="-1">Models</h2></section>`;
}
