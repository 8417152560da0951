// @ts-check
/** Tabs of a run's pages, which scroll sideways on a phone: the present one is in view from the start. */

const tabs = document.querySelector("nav.tabs");
const current = tabs?.querySelector("[aria-current]");
if (tabs && current instanceof HTMLElement) {
  const left = current.getBoundingClientRect().left - tabs.getBoundingClientRect().left + tabs.scrollLeft;
  tabs.scrollLeft = left - (tabs.clientWidth - current.offsetWidth) / 2;
}
