import { matrix } from "./drop-in/matrix.js";

await matrix({ aedes: false, mqtt: true });
