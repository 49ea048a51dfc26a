"use strict";
// Without this the page is whole; with it tables sort and search, the side bar follows, and sections fold at once.
(() => {
  const all = (what, within = document) => [...within.querySelectorAll(what)];

  const key = words => {
    const number = parseFloat(words.replace(/^[^\d.-]*(?=-?[\d.])/, ""));
    return /^[-\d.]/.test(words) && !Number.isNaN(number) ? number : words.toLowerCase();
  };
  const compare = (a, b) =>
    typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;

  function sortable(table) {
    all("thead th", table).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        all("th", table).forEach(other => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = all("tbody tr", table);
        const value = row => key((row.cells[column].dataset.value || row.cells[column].textContent).trim());
        rows.sort((a, b) => (up ? 1 : -1) * compare(value(a), value(b)));
        table.tBodies[0].append(...rows);
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
      for (const row of all("tbody tr", table)) {
        const text = (row.dataset.words + " " + row.textContent).toLowerCase();
        row.hidden = !words.every(word => text.includes(word));
      }
    });
    table.closest(".scroll").before(field);
  }

  all("section table").forEach(table => {
    sortable(table);
    if (table.tBodies[0].rows.length > 6) searchable(table);
  });

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
