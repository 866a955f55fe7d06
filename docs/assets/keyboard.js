// What the theme makes only once a page is shown, and leaves without a name or a tab stop: boxes in which wide tables
// scroll, code that scrolls (which it lets a keyboard reach only where the device has a pointer that hovers), and the
// bars with the buttons that copy code.
function mend() {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    let above = box;
    while (above && !/^H[1-6]$/.test(above.tagName)) above = above.previousElementSibling ?? above.parentElement;
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", `Table: ${(above?.firstChild?.textContent ?? document.title).trim()}`);
  }
  for (const code of document.querySelectorAll("pre > code:not([tabindex])")) code.tabIndex = 0;
  document.querySelectorAll("nav.md-code__nav").forEach((bar, place) => {
    if (!bar.hasAttribute("aria-label")) bar.setAttribute("aria-label", `Code ${place + 1}`);
  });
}
new MutationObserver(mend).observe(document.body, {
  attributeFilter: ["tabindex"], attributes: true, childList: true, subtree: true,
});
mend();
