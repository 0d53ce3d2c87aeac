// The search would start a worker, which the policy of the page forbids; the browser searches in the page.
const options = { disableSearch: true, hideDownloadButton: true, jsonSamplesExpandLevel: 5 };
const [openapi, place] = ["openapi", "reference"].map((id) => document.getElementById(id));
Redoc.init(JSON.parse(openapi.textContent), options, place);
