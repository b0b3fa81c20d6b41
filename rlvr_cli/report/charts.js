
// A plot says its values where the pointer is, or where the arrow keys go, and can be enlarged.
const large = document.getElementById("large");

for (const box of document.querySelectorAll(".plot-box")) {
  const plot = box.querySelector("[role=img]"), tip = box.querySelector(".tip");
  const { x, heads, series } = JSON.parse(box.dataset.plot);
  const line = element("i", { class: "guide" });
  let at = -1;

  function hide() {
    at = -1;
    tip.hidden = true;
    for (const mark of box.querySelectorAll(".guide, .dot")) mark.remove();
  }

  function show(index) {
    if (index === at) return;
    hide();
    at = index;
    line.style.left = x[at] / 10 + "%";
    plot.append(line);
    const list = element("ul", {});
    for (const { name, colour, y, labels } of series) {
      if (!labels[at]) continue;
      list.append(element("li", {}, element("i", { style: `background: var(--${colour})` }),
        series.length > 1 ? name + " " : "", element("b", {}, labels[at])));
      if (y[at] === null) continue;
      plot.append(element("i", { class: "dot", style: `left: ${x[at] / 10}%; top: ${y[at] / 10}%; background: var(--${colour})` }));
    }
    tip.replaceChildren(element("strong", {}, heads[at]), list);
    tip.hidden = false;
    const [width, left] = [plot.clientWidth, (x[at] / 1000) * plot.clientWidth];
    const beside = left > width / 2 ? left - tip.offsetWidth - 12 : left + 12;
    tip.style.left = Math.max(0, Math.min(width - tip.offsetWidth, beside)) + "px";
  }

  const nearest = (event) => {
    const { left, width } = plot.getBoundingClientRect();
    const here = (1000 * (event.clientX - left)) / width;
    return x.reduce((best, place, i) => (Math.abs(place - here) < Math.abs(x[best] - here) ? i : best), 0);
  };
  plot.addEventListener("pointermove", (event) => show(nearest(event)));
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("blur", hide);
  plot.addEventListener("click", () => enlarge(box));
  plot.addEventListener("keydown", (event) => {
    const next = { ArrowRight: at + 1, ArrowLeft: at < 0 ? x.length - 1 : at - 1, Home: 0, End: x.length - 1 }[event.key];
    if (next !== undefined) show(Math.max(0, Math.min(x.length - 1, next)));
    else if (event.key === "Escape" && at >= 0) hide();
    else if (event.key === "Enter" || event.key === " ") enlarge(box);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const button = box.querySelector(".enlarge");
  button.hidden = false;
  button.addEventListener("click", () => enlarge(box));
  plot.tabIndex = 0;
}

let place = null;
function enlarge(box) {
  if (large.open) return;
  const figure = box.closest("figure");
  large.querySelector("h2").textContent = figure.querySelector("h3").textContent;
  const legend = figure.querySelector(".legend");
  const body = large.querySelector(".body");
  body.replaceChildren(...(legend ? [legend.cloneNode(true)] : []));
  place = document.createComment("");
  box.replaceWith(place);
  body.append(box);
  large.showModal();
  box.querySelector("[role=img]").focus();
}

if (large) {
  large.querySelector(".close").addEventListener("click", () => large.close());
  large.addEventListener("click", (event) => { if (event.target === large) large.close(); });
  large.addEventListener("close", () => {
    const box = large.querySelector(".plot-box");
    place.replaceWith(box);
    box.querySelector("[role=img]").focus();
  });
}
