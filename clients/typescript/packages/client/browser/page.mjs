// What the scripts of the tests find in the page.

import * as tautwire from "@tautwire/client";

globalThis.tautwire = tautwire;
