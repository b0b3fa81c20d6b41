"use strict";
// The page works without this script: it adds the choice of a theme, and opens texts for print.
const root = document.documentElement;
const button = document.getElementById("theme");
const order = ["auto", "light", "dark"];
const stored = () => { try { return localStorage.getItem("rlvr-theme"); } catch { return null; } };
const store = (value) => { try { localStorage.setItem("rlvr-theme", value); } catch { /* none */ } };

function choose(theme) {
  root.dataset.theme = theme;
  button.textContent = "Theme: " + theme;
}

choose(order.includes(stored()) ? stored() : "auto");
button.hidden = false;
button.addEventListener("click", () => {
  const next = order[(order.indexOf(root.dataset.theme) + 1) % order.length];
  store(next);
  choose(next);
});

const folded = () => document.querySelectorAll("details.keep:not([open])");
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...folded()];
  opened.forEach((fold) => { fold.open = true; });
});
addEventListener("afterprint", () => opened.forEach((fold) => { fold.open = false; }));
