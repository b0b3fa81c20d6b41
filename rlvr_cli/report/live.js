
// A report that is written anew while a run goes on loads itself again, where the reader was. The
// place is kept in the tab: the address holds what the reader chose, and stays as it is.
const live = {
  key: "rlvr-place " + location.pathname,
  folds: () => [...document.querySelectorAll("details")],
  keep() {
    const open = this.folds().map((fold) => +fold.open).join("");
    try { sessionStorage.setItem(this.key, JSON.stringify({ y: scrollY, open })); } catch { /* none */ }
  },
  restore() {
    let place = null;
    try { place = JSON.parse(sessionStorage.getItem(this.key)); } catch { /* none */ }
    if (!place) return;
    const folds = this.folds();
    if (folds.length === place.open.length) folds.forEach((fold, n) => { fold.open = place.open[n] === "1"; });
    scrollTo({ top: place.y, behavior: "instant" });
  },
  isBusy() {
    const field = document.activeElement?.matches("input, select, textarea");
    return document.hidden || field || document.querySelector("dialog[open]") || String(getSelection());
  },
};
if (root.dataset.reload) {
  const eyebrow = document.querySelector(".eyebrow");
  if (eyebrow) eyebrow.textContent += ` · live, loads itself again every ${root.dataset.reload} s`;
  history.scrollRestoration = "manual";
  addEventListener("load", () => {
    live.restore();
    setInterval(() => {
      if (live.isBusy()) return;
      live.keep();
      location.reload();
    }, 1000 * root.dataset.reload);
  });
} else {
  // The run ended while the page was open: it is shown once more as before, and stays.
  addEventListener("load", () => {
    live.restore();
    try { sessionStorage.removeItem(live.key); } catch { /* none */ }
  });
}
