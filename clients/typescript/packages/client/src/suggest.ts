/** Options of MQTT.js, and properties of messages, with the option of this package that does the same. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  username: "userName",
  clean: "cleanStart",
  keepalive: "keepAliveS",
  connectTimeout: "connectTimeoutMs",
  reconnectPeriod: "reconnect.minDelayMs and reconnect.maxDelayMs",
  queueQoSZero: "queueQoS0",
  properties: "sessionExpiryS, receiveMaximum, maximumPacketSize, topicAliasMaximum or userProperties",
  ca: "tls.ca",
  cert: "tls.cert",
  key: "tls.key",
  passphrase: "tls.passphrase",
  rejectUnauthorized: "tls.rejectUnauthorized",
  servername: "tls.servername",
  ALPNProtocols: "tls.alpnProtocols",
  wsOptions: "headers",
  transformWsUrl: "a function instead of the address",
  servers: "an array of addresses",
  host: "the address mqtt://HOST:PORT",
  hostname: "the address mqtt://HOST:PORT",
  port: "the address mqtt://HOST:PORT",
  protocol: "the address mqtt://HOST:PORT",
  path: "the address ws://HOST:PORT/PATH",
  autoUseTopicAlias: "maxTopicAliases",
  autoAssignTopicAlias: "maxTopicAliases",
  customHandleAcks: "ack of a subscription",
  log: "diagnostics",
  nl: "noLocal",
  rap: "retainAsPublished",
  rh: "retainHandling",
  contentType: "properties.contentType",
  messageExpiryInterval: "properties.messageExpiryInterval",
  responseTopic: "properties.responseTopic",
  correlationData: "properties.correlationData",
  userProperties: "properties.userProperties",
};

/** Returns the known name that was probably intended, or an empty string. */
export function suggest(name: string, known: readonly string[]): string {
  const translated = Object.hasOwn(OTHER_NAMES, name) ? OTHER_NAMES[name]! : "";
  const first = translated.split(/[ .,]/, 1)[0]!;
  // Suggest only an option that exists here: `cleanStart` is not an option of a subscription.
  if (translated !== "" && (known.includes(first) || translated.includes(" "))) return translated;
  const lower = name.toLowerCase();
  let nearest = "";
  let least = Math.max(1, Math.floor(name.length / 3)) + 1;
  for (const each of known) {
    const distance = edits(lower, each.toLowerCase());
    if (distance < least) [nearest, least] = [each, distance];
  }
  return nearest;
}

/** The Levenshtein distance of two strings. */
function edits(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, n) => n);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const change = row[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(change, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[to.length]!;
}
