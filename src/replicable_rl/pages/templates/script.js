"use strict";
(() => {
  const make = (tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text; // text only: names come from files
    if (name) element.className = name;
    return element;
  };

  // Light or dark: what the system says, until somebody chooses; remembered as long as the page is open.
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
  });

  // The table of contents: folded on small screens, and it says where one is.
  const contents = document.getElementById("contents");
  const wide = matchMedia("(min-width: 64rem)");
  const fold = () => { contents.open = wide.matches; };
  wide.addEventListener("change", fold);
  fold();
  const links = new Map();
  for (const link of contents.querySelectorAll("a")) {
    links.set(link.getAttribute("href").slice(1), link);
    link.addEventListener("click", () => { if (!wide.matches) contents.open = false; });
  }
  const seen = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) seen[entry.isIntersecting ? "add" : "delete"](entry.target.id);
    let first = true;
    for (const [id, link] of links) {
      if (first && seen.has(id)) { link.setAttribute("aria-current", "true"); first = false; }
      else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-15% 0px -55% 0px" });
  for (const section of document.querySelectorAll("main > section")) watch.observe(section);

  // Pictures of policies: a state that is pointed at, tapped or focused tells its values in both runs.
  const panelOf = (data, state) => {
    const told = data.states[state];
    const parts = [make("h4", "State " + told.name), make("p", told.says, told.same ? "says" : "says differs")];
    if (told.rows.length) {
      const table = make("table"), head = make("tr"), body = make("tbody");
      for (const [i, title] of ["Q-value", ...data.runs, "change"].entries()) {
        const cell = make("th", title, i ? "number" : "");
        cell.scope = "col";
        head.append(cell);
      }
      for (const [action, one, two, gap, taken] of told.rows) {
        const row = make("tr");
        row.append(
          make("td", action),
          make("td", (taken[0] ? "▸ " : "") + one, taken[0] ? "number taken" : "number"),
          make("td", (taken[1] ? "▸ " : "") + two, taken[1] ? "number taken" : "number"),
          make("td", gap, gap === "=" ? "number" : "number unlike"));
        body.append(row);
      }
      const top = make("thead");
      top.append(head);
      table.append(top, body);
      parts.push(table, make("p", "▸ is the action that the run takes.", "remark"));
    }
    for (const remark of told.remarks) parts.push(make("p", remark, "remark"));
    return parts;
  };

  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const neighbour = (states, from, [down, right]) => {
    const row = +from.dataset.row, column = +from.dataset.column;
    let best = null, least = Infinity;
    for (const other of states) {
      const along = (other.dataset.row - row) * down + (other.dataset.column - column) * right;
      const aside = Math.abs((other.dataset.row - row) * right) + Math.abs((other.dataset.column - column) * down);
      if (along > 0 && along + 3 * aside < least) { best = other; least = along + 3 * aside; }
    }
    return best;
  };

  for (const figure of document.querySelectorAll("figure.policy")) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const panel = figure.querySelector(".panel");
    const all = [...figure.querySelectorAll(".state")];
    let shown = null;
    const show = (state) => {
      if (state === shown) return;
      shown = state;
      panel.replaceChildren(...panelOf(data, state));
      for (const one of all) {
        const chosen = one.dataset.state === state;
        one.classList.toggle("chosen", chosen);
        one.setAttribute("tabindex", chosen ? "0" : "-1");
      }
    };
    for (const one of all) {
      for (const event of ["pointerenter", "focus", "click"]) {
        one.addEventListener(event, () => show(one.dataset.state));
      }
      one.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); show(one.dataset.state); return; }
        if (!(event.key in steps)) return;
        event.preventDefault();
        const next = neighbour(all.filter((other) => other.parentNode === one.parentNode), one, steps[event.key]);
        if (next) { show(next.dataset.state); next.focus(); }
      });
    }
    show(String(data.first));
  }
})();
