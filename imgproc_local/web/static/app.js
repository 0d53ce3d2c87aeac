// Starts the page: the header, the navigation by URL fragment, and the views.

import { html, render, useEffect, useState } from "./preact.js";
import { setFormats } from "./format.js";
import { Messages, notice } from "./messages.js";
import { Observable, useObservable } from "./observable.js";
import { SessionEnded, local, signIn } from "./service.js";
import { followPictures } from "./store.js";
import { PicturesView } from "./pictures.js";
import { ModelsView } from "./view-models.js";
import { SettingsView } from "./view-settings.js";
import { AccessView } from "./view-access.js";
import { useListeners } from "./view-parts.js";

const VIEWS = [
  { name: "pictures", label: "Pictures", View: PicturesView },
  { name: "models", label: "Models", View: ModelsView },
  { name: "settings", label: "Settings", View: SettingsView },
  { name: "access", label: "Access", View: AccessView },
];

const overview = new Observable(null);

/** What the views use: `overview` (the data of GET /local/overview), and `refresh()` to read it again. */
const app = {
  get overview() { return overview.value; },
  refresh() {
    // if the service does not answer, the old values remain; other requests report the failure
    local("GET", "/overview").then((data) => overview.set(data), () => {});
  },
};

/** The `view` that the URL fragment names, and the `path` after its name: ["ID"] of "#pictures/ID". */
function currentRoute() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  return { view: VIEWS.find((view) => view.name === name) ?? VIEWS[0], path: rest };
}

function App() {
  const [route, setRoute] = useState(currentRoute);
  const data = useObservable(overview);
  useListeners(window, {
    hashchange() {
      setRoute(currentRoute());
      if (currentRoute().path.length === 0) app.refresh(); // a command in a terminal may have installed a model
    },
  });
  useEffect(() => {
    document.title = `${route.view.label} – imgproc-local`;
  }, [route.view]);
  const { View } = route.view;
  return html`
    <header class="top">
      <h1 class="brand"><img src="/static/icon.svg" alt="" width="24" height="24" /><span class="brand-name">imgproc-local</span></h1>
      <nav class="views" aria-label="Views">
        ${VIEWS.map(({ name, label }) => html`
          <a key=${name} href=${`#${name}`} aria-current=${name === route.view.name ? "page" : null}>${label}</a>`)}
      </nav>
    </header>
    <${Messages} />
    <main class=${`view view-${route.view.name}`}>
      ${data && html`<${View} app=${app} path=${route.path} />`}
    </main>`;
}

async function start() {
  render(html`<${App} />`, document.getElementById("app"));
  const token = new URLSearchParams(location.search).get("token") ?? "";
  try {
    await signIn(token);
    history.replaceState(null, "", `/${location.hash}`);
    const data = await local("GET", "/overview");
    setFormats(data);
    overview.set(data);
  } catch (error) {
    if (error instanceof SessionEnded) {
      location.replace(`/static/locked.html${token === "" ? "" : "#refused"}`);
      return;
    }
    await notice("start", `The page can't start: ${error.message}`, "Try again");
    location.reload();
    return;
  }
  followPictures().catch((error) => notice("follow", `The list of pictures is no longer updated: ${error.message} Reload the page.`));
}

// the browser would open a file that is dropped where no view accepts it, in place of this page
for (const name of ["dragenter", "dragover", "drop"]) {
  addEventListener(name, (event) => {
    if (event.defaultPrevented || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "none";
  });
}

start();
