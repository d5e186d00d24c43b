// Light and dark; tabs, and addresses that lead into them; tables whose heads sort: their rows, or their bodies.
var pages = {};
(function () {
  "use strict";
  pages.value = function (unit, column) {
    var cell = unit.querySelector("tr").cells[column], key = cell.dataset.v;
    var text = key === undefined ? cell.textContent.trim() : key, number = parseFloat(text.replace("−", "-"));
    return isNaN(number) ? text.toLowerCase() : number;
  };
  pages.sort = function (table, column, down) {
    var head = table.tHead.rows[0], bodies = Array.prototype.slice.call(table.tBodies);
    var rows = bodies.length > 1 ? bodies : Array.prototype.slice.call(bodies[0].rows);
    var parent = bodies.length > 1 ? table : bodies[0];
    var known = rows.map(function (row, place) {
      var unit = row;
      if (bodies.length === 1) { unit = { querySelector: function () { return row; } }; }
      return [pages.value(unit, column), place, row];
    });
    known.sort(function (one, other) {
      var a = one[0], b = other[0], missing = [a, b].map(function (v) { return v === "" || v === "–"; });
      if (missing[0] !== missing[1]) { return missing[0] ? 1 : -1; }
      if (typeof a !== typeof b) { return typeof a === "number" ? -1 : 1; }
      return (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1) || one[1] - other[1];
    });
    known.forEach(function (one) { parent.appendChild(one[2]); });
    Array.prototype.forEach.call(head.cells, function (cell, place) {
      if (place === column) { cell.setAttribute("aria-sort", down ? "descending" : "ascending"); }
      else { cell.removeAttribute("aria-sort"); }
    });
    table.dispatchEvent(new CustomEvent("sorted"));
  };
  pages.sortable = function (root) {
    root.querySelectorAll("table.sorts").forEach(function (table) {
      if (table.tHead.querySelector("button")) { return; }
      Array.prototype.forEach.call(table.tHead.rows[0].cells, function (cell, column) {
        if (cell.tagName !== "TH") { return; }
        var button = document.createElement("button");
        button.type = "button";
        button.append.apply(button, Array.prototype.slice.call(cell.childNodes));
        cell.replaceChildren(button);
        button.addEventListener("click", function () {
          var number = cell.classList.contains("n"), now = cell.getAttribute("aria-sort");
          pages.sort(table, column, now ? now === "ascending" : number);
        });
      });
    });
  };
  pages.sortable(document);

  // Without a script, the parts of all tabs stand one below another.
  pages.select = function (key) {
    document.querySelectorAll("[data-part]").forEach(function (one) { one.hidden = one.dataset.part !== key; });
    document.querySelectorAll(".tabs a").forEach(function (tab) {
      if (tab.hash === "#" + key) { tab.setAttribute("aria-current", "true"); } else { tab.removeAttribute("aria-current"); }
    });
    pages.part = key;
  };
  pages.tabs = function () {
    var tabs = Array.prototype.slice.call(document.querySelectorAll(".tabs a"));
    document.documentElement.classList.toggle("tabbed", tabs.length > 0 || Boolean(document.querySelector(".answered")));
    if (!tabs.length) { return; }
    tabs.forEach(function (tab) {
      tab.addEventListener("click", function (event) {
        event.preventDefault();
        window.history.replaceState(null, "", tab.hash);
        pages.select(tab.hash.slice(1));
      });
    });
    var kept = tabs.filter(function (tab) { return tab.hash === "#" + pages.part; })[0];
    pages.select((kept || document.querySelector(".tabs [aria-current]")).hash.slice(1));
  };
  // Shows what an address names: its tab, the folds around it, and the place itself.
  pages.follow = function () {
    var name = window.location.hash.slice(1), target = name && document.getElementById(name);
    if (!target) { return; }
    var part = target.closest("[data-part]");
    if (part && document.querySelector(".tabs")) { pages.select(part.dataset.part); }
    for (var fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) { fold.open = true; }
    if (!part || name !== part.dataset.part) { target.scrollIntoView(); }
  };
  pages.tabs();
  pages.follow();
  window.addEventListener("hashchange", function () { pages.follow(); });
}());
(function () {
  "use strict";
  var button = document.getElementById("theme"), root = document.documentElement;
  if (!button) { return; }
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  function isDark() { return root.dataset.theme ? root.dataset.theme === "dark" : dark.matches; }
  function show() { button.textContent = isDark() ? "Light" : "Dark"; }
  button.hidden = false;
  button.addEventListener("click", function () { root.dataset.theme = isDark() ? "light" : "dark"; show(); });
  dark.addEventListener("change", show);
  show();
}());
