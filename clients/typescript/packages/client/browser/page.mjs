// The objects that the scripts of the tests use in the page.

import * as tautwire from "@tautwire/client";
import { IndexedDbStore } from "@tautwire/client/indexeddb-store";

globalThis.tautwire = tautwire;
globalThis.IndexedDbStore = IndexedDbStore;
