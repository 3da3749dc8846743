// Tests a broker with MQTT.js, MQTT 3.1.1 and 5.0. See `--list` for the cases.

import { BOTH_VERSIONS } from './both-versions.mjs'
import { main } from './harness.mjs'
import { V5_ONLY } from './v5-only.mjs'

const cases = {}
for (const [name, run] of Object.entries(BOTH_VERSIONS)) cases[`v3_${name}`] = (context) => run(context, 4)
for (const [name, run] of Object.entries(BOTH_VERSIONS)) cases[`v5_${name}`] = (context) => run(context, 5)
for (const [name, run] of Object.entries(V5_ONLY)) cases[`v5_${name}`] = run

process.exit(await main(cases, process.argv.slice(2)))
