// @ts-check
/** Script of every page of the site: menus, shortcuts, command palette, questions, copy buttons, inbox, site status. */

import "../ui/menus.js";
import "../ui/confirm.js";
import "../ui/site_keys.js";
import "../ui/palette_keys.js";
import "../ui/copy_buttons.js";
import "../ui/site_status.js";
import "../inbox/bell.js";
