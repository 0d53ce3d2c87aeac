// The first-run screen: what works now, and which model fits this machine.

/** Shows the screen as long as it has something to say; then calls `onDone`. `app` has the functions of the page, see app.js. */
export function WelcomeView({ app, onDone }) {
  return null;
}
