import { matrix } from "./drop-in/matrix.js";

await matrix({ aedes: true, mqtt: true });
