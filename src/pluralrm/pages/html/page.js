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
