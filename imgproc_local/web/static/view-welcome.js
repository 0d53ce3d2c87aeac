// The first-run screen: what works now, and which model fits this machine.

import { html, useEffect, useState } from "./preact.js";
import { bytes } from "./format.js";
import { useObservable } from "./observable.js";
import { arrangement } from "./store.js";
import { TaskProgress, usePolledModels } from "./view-models.js";
import { Problem, useAction, withCode } from "./view-parts.js";

const DISMISSED = "imgproc-local.welcome-dismissed";

/**
 * Shows the screen until the first picture, unless a model was in use when the page was loaded or the user has closed it before.
 * `onDone()` is called when it is not, or no longer, shown. `app` has the functions of the page, see app.js.
 */
export function WelcomeView({ app, onDone }) {
  const { loaded, counts } = useObservable(arrangement);
  const [isFirstRun] = useState(() => !localStorage.getItem(DISMISSED) && app.overview.described_by.model === null);
  const hasPictures = loaded && counts.all > 0;
  useEffect(() => {
    if (!isFirstRun || hasPictures) onDone();
  }, [isFirstRun, hasPictures]);
  return isFirstRun && loaded && !hasPictures ? html`<${Welcome} app=${app} onDone=${onDone} />` : null;
}

function Welcome({ app, onDone }) {
  const { data, reload } = usePolledModels(app, (task, failure) => {
    if (!failure && !task.is_cancelled) app.announce(`${task.name} is installed and describes the next picture.`);
    app.refresh();
  });
  const dismiss = () => {
    localStorage.setItem(DISMISSED, "1");
    onDone();
  };
  return html`
    <section class="welcome sheet" aria-labelledby="welcome-title">
      <div class="welcome-head">
        <h2 id="welcome-title">Ready. Everything stays on this computer.</h2>
        <button type="button" class="icon" aria-label="Close this introduction" onClick=${dismiss}>✕</button>
      </div>
      <div class="welcome-columns">
        <div>
          <h3>Works now</h3>
          <ul class="works">
            <li><strong>Smaller files</strong> that look the same: JPEG, PNG, WebP, GIF, TIFF, and HEIC where its support is installed.</li>
            <li><strong>WebP or AVIF</strong> versions for your website.</li>
            <li><strong>File names and alt texts</strong> from the titles, captions and keywords in your files, in up to ${app.overview.max_languages} languages at once.</li>
            <li><strong>Privacy</strong>: positions, serial numbers and addresses are removed, and you see what was.</li>
          </ul>
        </div>
        <div>
          <h3>With a vision model</h3>
          <p>A model looks at each picture and describes it, also where the file has no words.</p>
          ${data ? html`<${Offer} app=${app} data=${data} reload=${reload} />` : html`<p class="hint" role="status">Checking which model fits this machine…</p>`}
        </div>
      </div>
      <p class="hint">To begin, drop pictures or a folder anywhere on this page.</p>
    </section>`;
}

/** The model that fits this machine, with a button that installs it; or why none is offered. */
function Offer({ app, data, reload }) {
  const action = useAction(async (verb, started) => {
    const accepted = await app.local("POST", `/models/${encodeURIComponent(started.name)}/${verb}`);
    await reload(accepted.task ?? started);
  });
  const used = data.models.find((model) => model.in_use);
  const offered = data.models.find((model) => model.recommended);
  const elsewhere = data.models.filter((model) => model.program);
  const others = html`<button type="button" onClick=${() => app.go("models")}>${elsewhere.length ? "Choose a model" : "Other models"}</button>`;
  if (data.task) return html`<${TaskProgress} task=${data.task} onCancel=${() => action.run("cancel", { ...data.task, is_cancelled: true })} />`;
  if (used && !used.problem) return html`<p class="done" role="status">${used.name} is installed. It describes the next picture.</p>`;
  if (data.runtime_problem) return html`<p class="warning">No model can run here: ${withCode(data.runtime_problem)}</p>`;
  if (data.air_gapped) return html`<p>This service is air-gapped and downloads nothing. Import a model from files instead.</p><div class="actions">${others}</div>`;
  if (!offered) {
    return html`<p>The models of the catalogue need more memory than this machine has (${bytes(data.memory_bytes)}).</p><div class="actions">${others}</div>`;
  }
  const missing_bytes = offered.size_bytes - offered.downloaded_bytes;
  return html`
    <p><strong>${offered.name}</strong> fits this machine: it needs ${bytes(offered.memory_bytes)} of ${bytes(data.memory_bytes)} memory. Languages: ${offered.languages}. Licence: ${offered.licence}.</p>
    ${elsewhere.length > 0 && html`<p class="hint">${elsewhere[0].program} on this machine also has models that can see pictures.</p>`}
    <${Problem} text=${action.problem ?? offered.problem} />
    ${missing_bytes > data.free_bytes && html`<p class="problem">The disk has only ${bytes(data.free_bytes)} free.</p>`}
    <div class="actions">
      <button type="button" class="main" disabled=${action.busy} onClick=${() => action.run("install", { kind: "install", name: offered.name })}>
        ${offered.downloaded_bytes ? "Resume the installation" : `Install ${offered.name}`}${missing_bytes > 0 && `, ${bytes(missing_bytes)}`}</button>
      ${others}
    </div>`;
}
