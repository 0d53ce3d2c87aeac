// The view "Settings".

import { html } from "./preact.js";

/** Shows the view. `app` has the functions of the page, see app.js. */
export function SettingsView({ app }) {
  return html`<section class="panel" aria-labelledby="view-title"><h2 id="view-title" tabindex="-1">Settings</h2></section>`;
}
