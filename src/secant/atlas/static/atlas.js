// Light or dark, searching, copying, enlarging. The pages read well without any of it.
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

addEventListener("DOMContentLoaded", () => { themeButton(); search(); copying(); enlarging(); });
