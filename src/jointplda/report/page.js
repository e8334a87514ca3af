"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");

  // Light or dark: as the system has it, until the button says otherwise.
  const remember = (value) => { try { localStorage.setItem("jointplda-theme", value); } catch { /* not here */ } };
  try {
    const chosen = localStorage.getItem("jointplda-theme");
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  } catch { /* not here */ }
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    remember(root.dataset.theme);
  });

  // The text of a cell without its interval, and the number it stands for.
  const text = (cell) => [...cell.childNodes].filter((n) => n.nodeName !== "SMALL").map((n) => n.textContent).join("").trim();
  const numeric = (cell) => {
    const plain = text(cell).replace("−", "-").replace("∞", "Infinity");
    return plain === "–" || plain === "" ? NaN : Number(plain);
  };
  const compare = (a, b, column, sign) => {
    if (column === 0) return sign * text(a.cells[0]).localeCompare(text(b.cells[0]), "en", { numeric: true });
    const x = numeric(a.cells[column]), y = numeric(b.cells[column]);
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return x === y ? 0 : sign * (x < y ? -1 : 1);
  };
  const sortBy = (table, column) => {
    const heads = [...table.tHead.rows[0].cells];
    const down = heads[column].getAttribute("aria-sort") === "ascending";
    heads.forEach((head, i) => head.setAttribute("aria-sort", i !== column ? "none" : down ? "descending" : "ascending"));
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort((a, b) => compare(a, b, column, down ? -1 : 1)));
  };

  const tsv = (table) => {
    const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent.replace(/\s+/g, " ").trim());
    const lines = [heads.flatMap((head, i) => (i ? [head, head + " low", head + " high"] : [head]))];
    for (const row of table.tBodies[0].rows) {
      lines.push([...row.cells].flatMap((cell, i) => {
        const between = cell.querySelector("small");
        const [low, high] = between ? between.textContent.split("–") : ["", ""];
        const value = text(cell).replace("−", "-");
        return i ? [value === "–" ? "" : value, low, high] : [text(cell).replace(/\s+/g, " ")];
      }));
    }
    return lines.map((line) => line.join("\t")).join("\n") + "\n";
  };
  const copyOldWay = (content, tools) => {
    const area = document.createElement("textarea");
    area.value = content;
    area.setAttribute("aria-label", "The table as tab-separated values");
    tools.querySelector("textarea")?.remove();
    tools.append(area);
    area.select();
    let done = false;
    try { done = document.execCommand("copy"); } catch { /* shown for copying by hand */ }
    if (done) area.remove();
    return done;
  };
  const copy = async (table, tools, said) => {
    const content = tsv(table);
    let done = false;
    try { await navigator.clipboard.writeText(content); done = true; } catch { done = copyOldWay(content, tools); }
    said.textContent = done ? "Copied." : "Copy the text below.";
    setTimeout(() => { said.textContent = ""; }, 4000);
  };

  for (const box of document.querySelectorAll(".table")) {
    const table = box.querySelector("table");
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sortBy(table, column));
      head.setAttribute("aria-sort", "none");
      head.append(button);
    });
    const tools = document.createElement("div");
    tools.className = "tools";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy as TSV";
    const said = document.createElement("span");
    said.setAttribute("role", "status");
    button.addEventListener("click", () => copy(table, tools, said));
    tools.append(button, said);
    box.append(tools);
  }

  // One part of the trials at a time.
  for (const parts of document.querySelectorAll(".parts")) {
    const select = parts.querySelector("select");
    const tables = [...parts.querySelectorAll(".part")];
    const show = () => tables.forEach((part, i) => { part.style.display = String(i) === select.value ? "" : "none"; });
    select.addEventListener("change", show);
    show();
  }

  // Pointing at a name in a legend brings out its curves.
  for (const item of document.querySelectorAll(".legend li[data-key]")) {
    const plots = () => item.closest("figure, section").querySelectorAll(".plot");
    const light = (on) => plots().forEach((plot) => {
      plot.classList.toggle("dim", on);
      plot.querySelectorAll("g." + item.dataset.key).forEach((group) => group.classList.toggle("lit", on));
    });
    item.addEventListener("mouseenter", () => light(true));
    item.addEventListener("mouseleave", () => light(false));
  }

  // On paper everything is open.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
})();
