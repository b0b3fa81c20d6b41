"use strict";
// Without this script the page shows its figures, plots, numbers and examples. It adds the choice
// of a theme, the table of all prompts and the values of plots, and opens texts for print.
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

// The menu shows on which side it goes on.
const menu = document.querySelector("nav ul");
const edges = [document.querySelector("nav .left"), document.querySelector("nav .right")];
function showEdges() {
  edges[0].hidden = menu.scrollLeft < 4;
  edges[1].hidden = menu.scrollLeft + menu.clientWidth > menu.scrollWidth - 4;
}
edges.forEach((edge, at) => edge.addEventListener("click", () => menu.scrollBy({ left: (at ? 1 : -1) * 0.7 * menu.clientWidth })));
menu.addEventListener("scroll", showEdges, { passive: true });
new ResizeObserver(showEdges).observe(menu);
