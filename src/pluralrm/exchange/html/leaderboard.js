// Filters: rows by the model's name, by verdict, and baselines; all tables at once.
(function () {
  "use strict";
  var box = document.querySelector(".filters"), name = document.getElementById("filter");
  var verdict = document.getElementById("verdict"), baselines = document.getElementById("baselines");
  function texts(row, selector) {
    return Array.prototype.map.call(row.querySelectorAll(selector), function (one) { return one.textContent; });
  }
  function fits(row) {
    var head = row.querySelector("th"), wanted = verdict ? verdict.value : "", chips = texts(row, ".chip");
    if (!baselines.checked && texts(head, ".span").join(" ").indexOf("baseline") >= 0) { return false; }
    if (wanted && chips.length && chips.indexOf(wanted) < 0) { return false; }
    return head.textContent.toLowerCase().indexOf(name.value.trim().toLowerCase()) >= 0;
  }
  function update() {
    var shown = 0, all = 0, part = pages.part;
    document.querySelectorAll(".filtered tbody tr").forEach(function (row) {
      var place = row.closest("[data-part]").dataset.part;
      row.hidden = !fits(row);
      if (!part || part === place) { all += 1; shown += row.hidden ? 0 : 1; }
    });
    document.getElementById("count").textContent = shown === all ? "" : shown + " of " + all;
  }
  [name, verdict, baselines].forEach(function (one) { if (one) { one.addEventListener("input", update); } });
  document.querySelectorAll(".tabs a").forEach(function (tab) { tab.addEventListener("click", update); });
  box.hidden = false;
  update();
}());
