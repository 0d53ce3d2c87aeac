// The view "Settings": the health of the installation, and every setting with its value and source.

import { html, useMemo, useState } from "./preact.js";
import { counted } from "./format.js";
import { CopyButton, Panel, Problem, useAction, useLoaded, withCode } from "./view-parts.js";

// what the page calls the checks of `imgproc-local doctor`
const CHECKS = {
  program: "Program",
  python: "Python",
  sqlite: "SQLite, the database",
  libvips: "libvips, which decodes and encodes",
  pillow: "Pillow, which decodes and encodes",
  scoring: "Measuring image quality",
  jpeg: "JPEG encoders",
  webp: "WebP encoder",
  processor: "Processor",
  settings: "Settings",
  describer: "Vision model",
  text: "Text in pictures",
  network: "Network",
  compression: "Outside compression service",
  "data folder": "Data folder",
  disk: "Disk",
  server: "This service",
  database: "Database",
  log: "Write-ahead log of the database",
  credits: "Credits",
  files: "Stored files",
  jobs: "Pictures",
  keys: "API keys",
  retention: "Removal of old pictures",
};
const STATES = { ok: ["good", "in order"], warning: ["warn", "could be better"], problem: ["bad", "does not work"] };
const ORDER = { problem: 0, warning: 1, ok: 2 };

/** Shows the view. `app` has the functions of the page, see app.js. */
export function SettingsView({ app }) {
  const { data, problem } = useLoaded(() => app.local("GET", "/settings"));
  return html`
    <${Panel} title="Settings" columns=${true} problem=${problem} loading=${!data} intro=${data && `imgproc-local ${data.version}`}>
      <${Health} app=${app} />
      ${data && html`<${Settings} app=${app} data=${data} />`}
    </${Panel}>`;
}

// ---- health ----

function Health({ app }) {
  const { data, problem, reload } = useLoaded(() => app.local("GET", "/health"));
  const again = useAction(async () => {
    const health = await reload();
    if (health) app.announce(summaryOf(health));
  });
  const checks = data ? [...data.checks].sort((a, b) => ORDER[a.state] - ORDER[b.state]) : [];
  const notable = checks.filter((check) => check.state !== "ok");
  const inOrder = checks.filter((check) => check.state === "ok");
  return html`
    <section aria-labelledby="health-title" class="group">
      <h3 id="health-title">Health</h3>
      <div class="sheet health">
        <div class="health-head">
          <p role="status"><strong>${data ? summaryOf(data) : problem ? "" : "Checking the installation…"}</strong></p>
          <button type="button" class="small" disabled=${again.busy || (!data && !problem)} onClick=${() => again.run()}>${again.busy ? "Checking…" : "Check again"}</button>
        </div>
        <${Problem} text=${problem ?? data?.problem} />
        ${notable.length > 0 && html`<ul class="health-checks">${notable.map((check) => html`<${Check} key=${check.name} check=${check} />`)}</ul>`}
        ${inOrder.length > 0 && html`<details><summary>${counted(inOrder.length, "check")} in order</summary><ul class="health-checks">${inOrder.map((check) => html`<${Check} key=${check.name} check=${check} />`)}</ul></details>`}
        <p class="hint"><code>imgproc-local doctor</code> prints the same in a terminal; <code>imgproc-local verify</code> also reads every stored file.</p>
      </div>
    </section>`;
}

function summaryOf({ checks, ok }) {
  if (ok === null) return "The installation could not be checked.";
  const problems = checks.filter((check) => check.state === "problem").length;
  const warnings = checks.filter((check) => check.state === "warning").length;
  if (problems) return `${counted(problems, "thing does", "things do")} not work.`;
  return warnings ? `Everything works; ${counted(warnings, "thing")} could be better.` : "Everything is in order.";
}

function Check({ check }) {
  const [kind, text] = STATES[check.state];
  return html`
    <li class="health-check">
      <span class=${`tag ${kind}`}>${text}</span>
      <div><h4>${CHECKS[check.name] ?? check.name}</h4><p>${withCode(check.detail)}</p>${check.advice && html`<p class="advice">${withCode(check.advice)}</p>`}</div>
    </li>`;
}

// ---- settings ----

const isDefault = (setting) => setting.source === "default";

function sourceText({ source }) {
  if (isDefault({ source })) return "default";
  if (source === "unknown") return "given at the start";
  if (source.startsWith("--")) return `flag ${source}`;
  return source.startsWith("IMGPROC_") ? `environment variable ${source}` : `file ${source}`;
}

function Settings({ app, data }) {
  const [search, setSearch] = useState("");
  const [onlyChanged, setOnlyChanged] = useState(false);
  const shown = useMemo(() => {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    return data.settings.filter((setting) => {
      const text = `${setting.name} ${setting.description}`.toLowerCase();
      return words.every((word) => text.includes(word)) && !(onlyChanged && isDefault(setting));
    });
  }, [data, search, onlyChanged]);
  return html`
    <section aria-labelledby="settings-title" class="group">
      <h3 id="settings-title">Settings in effect</h3>
      <${HowToChange} app=${app} data=${data} />
      <div class="filters">
        <label class="field"><span class="visually-hidden">Find a setting</span><input type="search" placeholder="Find a setting" value=${search} onInput=${(event) => setSearch(event.target.value)} /></label>
        <label class="choice"><input type="checkbox" checked=${onlyChanged} onChange=${(event) => setOnlyChanged(event.target.checked)} />Only changed ones</label>
        <p class="hint" role="status">${counted(shown.length, "setting")}</p>
      </div>
      ${shown.length > 0 && html`
        <dl class="sheet settings">
          ${shown.map((setting) => html`
            <div key=${setting.name} class=${isDefault(setting) ? "setting" : "setting changed"}>
              <dt><code>${setting.name}</code></dt>
              <dd class="value"><code>${valueText(setting.value)}</code><span class=${isDefault(setting) ? "hint" : "tag good"}>${sourceText(setting)}</span></dd>
              <dd class="hint">${withCode(setting.description)}</dd>
            </div>`)}
        </dl>`}
    </section>`;
}

function valueText(value) {
  if (value === "") return "(empty)";
  if (typeof value === "object" && value !== null) return Object.keys(value).join(", ") || "(none)";
  return String(value);
}

function HowToChange({ app, data }) {
  const file = data.file ?? data.default_file;
  return html`
    <details class="sheet"><summary>How to change a setting</summary>
      <div class="how">
        ${file
          ? html`<p>${data.file ? "Edit the settings file" : "Create a settings file"} <code>${file}</code> <${CopyButton} app=${app} text=${file} what="the path" /> with one line per setting, in TOML, and start the service again:</p>`
          : html`<p>Set the environment variable <code>${data.file_variable}</code> to the path of a settings file with one line per setting, in TOML, and start the service again:</p>`}
        <pre><code>${'quality_target = "visually-lossless"\nretention_jobs_days = 90'}</code></pre>
        <p>An environment variable such as <code>IMGPROC_QUALITY_TARGET</code> has precedence over the file, and a flag of the command over both. Settings are read at the start of the service and can’t be changed while it runs.</p>
      </div>
    </details>`;
}
