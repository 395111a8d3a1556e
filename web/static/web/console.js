// Small conveniences of the console. Every page works without them.
(() => {
  "use strict";

  // -- theme: the one of the system, until a person chooses one --------------------------------------------------------
  const isDark = () =>
    document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;

  const choose = (theme) => {
    document.documentElement.dataset.theme = theme;
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = `penstock-theme=${theme}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  };

  // -- copying ---------------------------------------------------------------------------------------------
  const copy = async (button) => {
    const source = document.getElementById(button.dataset.copy);
    if (!source) return;
    const before = button.textContent;
    try {
      await navigator.clipboard.writeText(source.textContent.trim());
      button.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(source);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => (button.textContent = before), 1800);
  };

  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    if (!target) return;
    const button = target.closest("button");
    if (button?.dataset.theme !== undefined) choose(isDark() ? "light" : "dark");
    else if (button?.dataset.copy) copy(button);
    else if (button?.dataset.dismiss !== undefined) button.closest("[role=status]")?.remove();
    // An open menu closes when something else is clicked.
    for (const open of document.querySelectorAll("details.switcher[open], details.menu[open]")) {
      if (!open.contains(target)) open.open = false;
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      for (const open of document.querySelectorAll("details.switcher[open], details.menu[open]")) {
        open.open = false;
        open.querySelector("summary").focus();
      }
      return;
    }
    const typing = event.target instanceof Element && event.target.closest("input, textarea, select");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const search = document.querySelector("input[type=search]");
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    }
  });

  // -- a form is sent once ---------------------------------------------------------------------------------
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (button && !button.hasAttribute("data-again")) {
      button.setAttribute("aria-busy", "true");
      // After the form's own data is gathered: a disabled button is not part of it.
      setTimeout(() => (button.disabled = true));
    }
  });
  addEventListener("pageshow", () => {
    for (const button of document.querySelectorAll("button[aria-busy]")) {
      button.disabled = false;
      button.removeAttribute("aria-busy");
    }
  });

  // -- a field that only means something with a certain choice ----------------------------------------------
  const match = (select) => {
    for (const part of document.querySelectorAll(`[data-when="${select.name}"]`)) {
      part.hidden = !part.dataset.is.split(" ").includes(select.value);
    }
  };
  for (const select of document.querySelectorAll("select[data-chooses]")) {
    select.addEventListener("change", () => match(select));
    match(select);
  }

  // -- live parts pause while the page is hidden -------------------------------------------------------------
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && event.detail.elt.matches("[data-live]")) event.preventDefault();
  });

  // -- a followed list stays short -----------------------------------------------------------------
  document.addEventListener("htmx:afterSwap", (event) => {
    const list = event.detail.target;
    if (list.id !== "message-list") return;
    if (list.children.length) document.getElementById("nothing-yet")?.remove();
    while (list.children.length > 300) list.lastElementChild.remove();
  });

  // -- a notice disappears by itself -----------------------------------------------------------------------------
  for (const notice of document.querySelectorAll(".notice")) setTimeout(() => notice.remove(), 9000);
})();
