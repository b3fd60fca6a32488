// Sets the theme before the first paint, so that nothing flashes.
const chosen = localStorage.getItem("theme");
if (chosen) document.documentElement.dataset.theme = chosen;
