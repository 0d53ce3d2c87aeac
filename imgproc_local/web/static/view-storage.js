// The view "Storage": what occupies the disk, and removing old pictures.

import { html, useEffect, useId, useState } from "./preact.js";
import { bytes, counted, number } from "./format.js";
import { Panel, Problem, useAction, useLoaded } from "./view-parts.js";

const KINDS = [
  ["originals", "Originals", "the files that were uploaded"],
  ["results", "Results", "optimized and converted files"],
  ["thumbnails", "Thumbnails", "made again when they are missing"],
  ["models", "Models", "vision models and downloads that are not finished"],
  ["database", "Database", "texts, jobs, keys, credits"],
  ["backups", "Copies of the database", "from before the last update of the program"],
  ["logs", "Logs", ""],
  ["temporary", "In progress", "uploads and pictures that are being worked on"],
];
const ONLY = [ // what to remove: the value of `only` in a request, and its label
  ["jobs", "Pictures, with all their files and texts"],
  ["originals", "Only the originals; texts and results stay"],
  ["results", "Only the results; texts and originals stay"],
];
const AGES = [7, 30, 90, 180, 365];
const MAX_DAYS = 36500;
const COUNT_DELAY_MS = 300; // from the last change of the plan to the request that counts what it would remove

/** Shows the view. `app` has the functions of the page, see app.js. */
export function StorageView({ app }) {
  const [plan, setPlan] = useState({ days: "90", only: "jobs" });
  // while the days are not valid, any number will do: what it would remove is not shown
  const query = useDelayed(`older_than_days=${validDays(plan.days) ?? 90}&only=${plan.only}`);
  const { data, problem, reload } = useLoaded(() => app.local("GET", `/storage?${query}`), [query]);
  return html`
    <${Panel} title="Storage" columns=${true} problem=${problem} loading=${!data}
      intro="Everything that this service stores is in one folder on this machine. The models can be in another.">
      ${data && html`
        <${Use} data=${data} />
        <${Prune} app=${app} data=${data} plan=${plan} setPlan=${setPlan} reload=${reload} />`}
    </${Panel}>`;
}

/** `text` as a number of days, or null if it is not an integer from 0 to `MAX_DAYS`. */
function validDays(text) {
  const days = /^[0-9]{1,6}$/.test(text.trim()) ? Number(text) : NaN;
  return days <= MAX_DAYS ? days : null;
}

/** The last `value` that remained unchanged for a while, so that typing does not send a request per key. */
function useDelayed(value) {
  const [delayed, setDelayed] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setDelayed(value), COUNT_DELAY_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return delayed;
}

function Use({ data }) {
  const shown = KINDS.filter(([kind]) => data[kind].files > 0);
  const total = shown.reduce((sum, [kind]) => sum + data[kind].size_bytes, 0);
  return html`
    <section aria-labelledby="use-title" class="group">
      <h3 id="use-title">What is stored</h3>
      <div class="sheet">
        <dl class="figures">
          <div><dt>Pictures</dt><dd class="number">${number(data.jobs)}</dd></div>
          <div><dt>Stored</dt><dd class="number">${bytes(total)}</dd></div>
          <div><dt>Free on the disk</dt><dd class="number">${bytes(data.free_bytes)}</dd></div>
        </dl>
        ${total > 0 && html`<${Shares} shown=${shown} data=${data} total=${total} />`}
        <div class="scroll" tabindex="0" role="region" aria-label="Size by kind">
          <table>
            <caption class="visually-hidden">Size by kind</caption>
            <thead><tr><th scope="col">Kind</th><th scope="col" class="right">Files</th><th scope="col" class="right">Size</th></tr></thead>
            <tbody>${KINDS.map(([kind, name, hint]) => html`
              <tr key=${kind}><th scope="row"><span class=${`swatch kind-${kind}`} aria-hidden="true"></span>${name}${hint && html` <span class="hint">${hint}</span>`}</th>
                <td class="right">${number(data[kind].files)}</td><td class="right">${bytes(data[kind].size_bytes)}</td></tr>`)}
            </tbody>
          </table>
        </div>
        <p class="hint">Data folder: <code>${data.data_dir}</code>. <code>imgproc-local backup FILE</code> copies the database and all files of your pictures into one archive.</p>
      </div>
    </section>`;
}

/** The kinds as parts of one bar. The table below has the same numbers. */
function Shares({ shown, data, total }) {
  let x = 0;
  return html`
    <svg class="shares" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">
      ${shown.map(([kind]) => {
        const width = (data[kind].size_bytes / total) * 1000;
        const part = html`<rect key=${kind} class=${`kind-${kind}`} x=${x} y="0" width=${width} height="10" />`;
        x += width;
        return part;
      })}
    </svg>`;
}

function Prune({ app, data, plan, setPlan, reload }) {
  const hint = useId();
  const days = validDays(plan.days);
  const counts = data.prune;
  const isCounted = counts.older_than_days === days && counts.only === plan.only;
  const action = useAction(async () => {
    const total = { only: plan.only, jobs: 0, files: 0, size_bytes: 0 };
    for (let isComplete = false; !isComplete; ) {
      // with counted_at, pictures that have finished since the count are not removed
      const part = await app.local("POST", "/storage/prune", { older_than_days: days, only: plan.only, counted_at: data.counted_at });
      for (const count of ["jobs", "files", "size_bytes"]) total[count] += part[count];
      isComplete = part.is_complete;
      await reload(); // shows what is left
    }
    app.refresh();
    app.announce(`Removed ${amountText(total)}.`);
    return total;
  });
  const [removed, setRemoved] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    setRemoved(null);
    const text = `${amountText(counts)} will be removed for good${plan.only === "jobs" ? ", with their texts" : ""}. Download what you still need first.`;
    const title = days === 0 ? "Remove all finished pictures?" : `Remove what is older than ${counted(days, "day")}?`;
    if (await app.confirmed({ title, text, yes: `Remove ${bytes(counts.size_bytes)}` })) setRemoved(await action.run());
  };
  const ages = Object.entries(data.retention_days).filter(([, limit]) => limit > 0);
  return html`
    <section aria-labelledby="prune-title" class="group">
      <h3 id="prune-title">Free up space</h3>
      <form class="sheet prune" onSubmit=${submit}>
        <fieldset class="field"><legend>What to remove</legend>
          ${ONLY.map(([only, label]) => html`
            <label key=${only} class="choice"><input type="radio" name="only" value=${only} checked=${plan.only === only} onChange=${() => setPlan({ ...plan, only })} />${label}</label>`)}
        </fieldset>
        <div class="field">
          <label for="prune-days">Uploaded more than this many days ago</label>
          <div class="ages">
            <input id="prune-days" type="text" inputmode="numeric" pattern="[0-9]{1,5}" required title="digits" aria-describedby=${hint} value=${plan.days} onInput=${(event) => setPlan({ ...plan, days: event.target.value })} />
            ${AGES.map((age) => html`<button key=${age} type="button" class="small" aria-pressed=${String(days === age)} aria-label=${`${age} days`} onClick=${() => setPlan({ ...plan, days: String(age) })}>${age}</button>`)}
          </div>
          <p id=${hint} class="hint">0 removes every finished picture. Unfinished ones are never removed.</p>
        </div>
        <p role="status">${days === null ? `Expected a number of days from 0 to ${number(MAX_DAYS)}.` : !isCounted ? "Counting…" : counts.files || counts.jobs
          ? html`This removes ${amountText(counts)} and frees <strong>${bytes(counts.size_bytes)}</strong>.` : "Nothing is that old."}</p>
        <${Problem} text=${action.problem} />
        ${removed && html`<p class="done" role="status">Removed ${amountText(removed)}: ${bytes(removed.size_bytes)} are free again.</p>`}
        <div class="actions"><button type="submit" class="danger" disabled=${action.busy || !isCounted || !(counts.files || counts.jobs)}>${action.busy ? "Removing…" : "Remove…"}</button></div>
        <p class="hint">${ages.length
          ? `Removed on their own: ${ages.map(([only, limit]) => `${only === "jobs" ? "pictures" : only} after ${counted(limit, "day")}`).join(", ")}.`
          : "Nothing is removed on its own. The settings retention_jobs_days, retention_originals_days and retention_results_days change that."}</p>
      </form>
    </section>`;
}

/** How much is removed, such as "2 pictures with 6 files". */
const amountText = ({ only, jobs, files }) => only === "jobs" ? `${counted(jobs, "picture")} with ${counted(files, "file")}` : counted(files, "file");
