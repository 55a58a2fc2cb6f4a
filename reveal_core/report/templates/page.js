// What every page has: the button that switches colours, buttons that copy, and paper that shows what is folded.
(() => {
  "use strict";
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} colours`);
  };
  // Plots are drawn in colours of their own and must hear of it.
  const changed = () => { name(); root.dispatchEvent(new Event("themechange")); };
  button.hidden = false;
  name();
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; changed(); });
  dark.addEventListener("change", changed);

  const told = document.getElementById("told");
  document.querySelectorAll("button.copy").forEach((copy) => {
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      const code = copy.parentElement.querySelector("code");
      let done = "Copied";
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch {
        getSelection().selectAllChildren(code);
        done = "Selected";
      }
      copy.textContent = told.textContent = done;
      setTimeout(() => { copy.textContent = "Copy"; told.textContent = ""; }, 2000);
    });
  });
  window.addEventListener("beforeprint", () => document.querySelectorAll("details:not(.onscreen)").forEach((d) => { d.open = true; }));
})();
