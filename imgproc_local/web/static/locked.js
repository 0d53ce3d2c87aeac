// The sign-in page: opens the link that is pasted, at the address of this page.

const field = document.forms[0].elements.link;

field.addEventListener("input", () => field.setCustomValidity(""));
document.forms[0].addEventListener("submit", (event) => {
  event.preventDefault();
  // people also paste the line of the terminal with the link in it, or the token alone
  const [, token] = field.value.trim().match(/(?:token=|^)([\w-]+)\s*$/) ?? [];
  if (token === undefined) {
    field.setCustomValidity("This is not such a link: it ends in “?token=” and letters and digits.");
    field.reportValidity();
  } else location.assign(`/?token=${token}`);
});

// signed in by the link in another tab
addEventListener("storage", ({ key }) => { if (key === "imgproc-local.session") location.assign("/"); });
