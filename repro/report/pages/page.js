"use strict";
// Without this the page is whole; with it tables sort and search, points of figures tell their numbers at once, the side
// bar follows, and sections fold together.
(() => {
  const all = (what, within = document) => [...within.querySelectorAll(what)];

  const key = words => {
    const number = parseFloat(words.replace(/^[^\d.-]*(?=-?[\d.])/, ""));
    return /^[-\d.]/.test(words) && !Number.isNaN(number) ? number : words.toLowerCase();
  };
  const compare = (a, b) =>
    typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;

  // A click sorts upwards, the next downwards, the third brings back the order and the lines that name groups.
  function sortable(table) {
    const homes = new Map(all("tbody tr", table).map(row => [row, row.parentNode]));
    const ranked = [...homes.keys()].filter(row => row.className !== "group");
    const states = ["ascending", "descending", null];
    all("thead th", table).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const state = states[(states.indexOf(head.getAttribute("aria-sort")) + 1) % 3];
        all("th", table).forEach(other => other.removeAttribute("aria-sort"));
        table.classList.toggle("sorted", state !== null);
        if (state === null) {
          homes.forEach((home, row) => home.append(row));
          return;
        }
        head.setAttribute("aria-sort", state);
        const value = row => key((row.cells[column].dataset.value || row.cells[column].textContent).trim());
        const sorted = [...ranked].sort((a, b) => (state === "ascending" ? 1 : -1) * compare(value(a), value(b)));
        table.tBodies[0].append(...sorted);
      });
    });
  }

  function searchable(table) {
    const field = document.createElement("input");
    field.type = "search";
    field.className = "find";
    field.placeholder = "find in this table";
    field.setAttribute("aria-label", "find in this table");
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/);
      for (const row of all("tbody tr:not(.group)", table)) {
        const text = (row.dataset.words + " " + row.textContent).toLowerCase();
        row.hidden = !words.every(word => text.includes(word));
      }
      for (const line of all("tr.group", table))
        line.hidden = all("tr:not(.group)", line.parentNode).every(row => row.hidden);
    });
    table.closest(".scroll").before(field);
  }

  all("section table").forEach(table => {
    sortable(table);
    if (all("tbody tr", table).length > 6) searchable(table);
  });

  // The nearest point of a figure tells its number beside the pointer; without this its <title> does, after a while.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  for (const picture of all("figure svg")) {
    const points = all(".told circle", picture);
    const texts = points.map(point => point.firstChild.textContent);
    if (!points.length) continue;
    points.forEach(point => point.firstChild.remove());
    picture.addEventListener("pointermove", event => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
      let near = -1, least = 14 * 14;
      points.forEach((point, i) => {
        const away = (point.cx.baseVal.value - at.x) ** 2 + (point.cy.baseVal.value - at.y) ** 2;
        if (away < least) { near = i; least = away; }
      });
      points.forEach((point, i) => point.classList.toggle("near", i === near));
      tip.hidden = near < 0;
      if (near < 0) return;
      tip.textContent = texts[near];
      tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px";
      tip.style.top = event.clientY + 16 + "px";
    });
    picture.addEventListener("pointerleave", () => {
      tip.hidden = true;
      points.forEach(point => point.classList.remove("near"));
    });
  }

  const links = new Map(all("nav a").map(link => [link.hash.slice(1), link]));
  const follow = new IntersectionObserver(entries => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach(link => link.classList.remove("here"));
      links.get(entry.target.id)?.classList.add("here");
    }
  }, {rootMargin: "0px 0px -75% 0px"});
  all("section[id]").forEach(section => follow.observe(section));

  const open = state => all("section > details").forEach(part => { part.open = state; });
  const bar = document.querySelector(".bar");
  for (const [words, state] of [["unfold all", true], ["fold all", false]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = words;
    button.addEventListener("click", () => open(state));
    bar.append(button, " ");
  }
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const part = target && (target.closest("details") || target.querySelector(":scope > details"));
    if (part) { part.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", reveal);
  addEventListener("beforeprint", () => open(true));
  if (location.hash) reveal();
})();
