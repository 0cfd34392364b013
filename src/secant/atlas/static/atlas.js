// Light or dark, searching, copying, enlarging, reading curves. The pages read well without any of it.
"use strict";

const root = document.documentElement;
const memory = {
  get() { try { return localStorage.getItem("secant-theme"); } catch { return null; } },
  set(value) { try { localStorage.setItem("secant-theme", value); } catch { /* a browser that forgets */ } },
};
const chosen = memory.get();
if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen; // before the page is painted

function themeButton() {
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => button.setAttribute("aria-pressed", String(dark()));
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    memory.set(root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  button.hidden = false;
  show();
}

function search() {
  const box = document.getElementById("search");
  if (!box) return;
  const found = document.getElementById("found");
  const filters = [...document.querySelectorAll(".filters button")];
  const studies = [...document.querySelectorAll("li.study")];
  const update = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdicts = filters.filter((f) => f.getAttribute("aria-pressed") === "true").map((f) => f.dataset.verdict);
    let count = 0;
    for (const study of studies) {
      const has = study.dataset.verdicts.split("|");
      const fits = words.every((word) => study.dataset.search.includes(word))
        && (!verdicts.length || verdicts.some((verdict) => has.includes(verdict)));
      study.hidden = !fits;
      count += fits;
    }
    for (const section of document.querySelectorAll("section.chapter, section.source")) {
      section.hidden = !section.querySelector("li.study:not([hidden])");
    }
    const narrowed = words.length || verdicts.length;
    found.textContent = !narrowed ? "" : count ? `${count} of ${studies.length} studies` : "No study matches.";
  };
  box.addEventListener("input", update);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { box.value = ""; update(); box.blur(); }
  });
  for (const filter of filters) {
    filter.addEventListener("click", () => {
      filter.setAttribute("aria-pressed", String(filter.getAttribute("aria-pressed") !== "true"));
      update();
    });
  }
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      box.focus();
    }
  });
  update(); // a browser may restore what was typed
}

function copying() {
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(button.previousElementSibling);
        button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1600);
    });
  }
}

function enlarging() {
  const link = document.querySelector("a.enlarge");
  const dialog = document.querySelector("dialog.lightbox");
  if (!link || !dialog?.showModal) return;
  link.addEventListener("click", (event) => {
    event.preventDefault();
    dialog.showModal();
  });
  dialog.addEventListener("click", () => dialog.close());
}

// Curves of a watched run: what is pointed at is told in numbers, and a name in the key takes its curve away.
function curves() {
  const told = (value) => (value === null ? "no number" : Number(value.toPrecision(4)).toString().replace("-", "\u2212"));
  const nearest = (points, step) => {
    let low = 0, high = points.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points[middle][0] <= step) low = middle; else high = middle;
    }
    return Math.abs(points[high][0] - step) < Math.abs(points[low][0] - step) ? points[high] : points[low];
  };
  for (const chart of document.querySelectorAll(".chart")) {
    const data = JSON.parse(chart.dataset.chart);
    const field = chart.querySelector(".field"), svg = field.querySelector("svg");
    const pointer = chart.querySelector(".pointer"), at = chart.querySelector(".at");
    const numbers = [...chart.querySelectorAll(".key b")], usual = numbers.map((number) => number.innerHTML);
    const steps = [...new Set(data.curves.flatMap((curve) => curve.points.map((point) => point[0])))].sort((a, b) => a - b);
    let here = null;
    const show = (step) => {
      here = step;
      const x = (1000 * (step - data.first)) / Math.max(data.last - data.first, 1);
      pointer.setAttribute("d", `M${x} 0V1000`);
      pointer.removeAttribute("hidden");
      at.textContent = `step ${step.toLocaleString("en")}`;
      data.curves.forEach((curve, i) => { numbers[i].textContent = told(nearest(curve.points, step)[1]); });
    };
    const rest = () => {
      here = null;
      pointer.setAttribute("hidden", "");
      at.textContent = "";
      numbers.forEach((number, i) => { number.innerHTML = usual[i]; });
    };
    field.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
      show(nearest(steps.map((step) => [step]), data.first + share * (data.last - data.first))[0]);
    });
    field.addEventListener("pointerleave", rest);
    field.addEventListener("blur", rest);
    field.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!move || !steps.length) return;
      event.preventDefault();
      const place = here === null ? (move > 0 ? 0 : steps.length - 1) : steps.indexOf(here) + move;
      show(steps[Math.min(Math.max(place, 0), steps.length - 1)]);
    });
    for (const button of chart.querySelectorAll(".key button")) {
      const curve = chart.querySelector(`.curve[data-curve="${button.dataset.curve}"]`);
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(on));
        curve.style.display = on ? "" : "none";
      });
    }
  }
}

addEventListener("DOMContentLoaded", () => { themeButton(); search(); copying(); enlarging(); curves(); });
