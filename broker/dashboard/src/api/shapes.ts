// What the admin API answers: docs/reference/admin-api.md.

/** Each role may do what those before it may. */
export const ROLES = ["read", "operate", "administer"] as const;
export type Role = (typeof ROLES)[number];

export interface Session {
  name: string;
  role: Role;
  /** Whether payloads may be seen: the tap, and retained messages. */
  payloads: boolean;
  expires_ms: number | null;
  csrf: string;
}

export interface Overview {
  version: string;
  started_ms: number;
  now_ms: number;
  threads: number;
  connections: number;
  connections_limit: number | null;
  sessions: number;
  subscriptions: number;
  retained_messages: number;
  retained_bytes: number;
  /** Since the start, as are the three below. */
  messages_received: number;
  messages_sent: number;
  bytes_received: number;
  bytes_sent: number;
  memory_bytes: number;
  memory_limit_bytes: number | null;
  disk_bytes: number | null;
  disk_limit_bytes: number | null;
  log: { sync_p50_us: number | null; sync_p99_us: number | null; state: "ok" | "full" | "failed" | "off" };
  /** In the last minute. */
  latency: Record<"delivery_p50_us" | "delivery_p99_us" | "acknowledgement_p50_us" | "acknowledgement_p99_us", number | null>;
  /** Messages since the start, by the reason. */
  drops: Record<string, number>;
}

/** An access rule with one of its filters. */
export interface Rule {
  number: number;
  /** The listener that has it to itself. */
  listener: string | null;
  file: string;
  line: number;
  role: string;
  effect: "allow" | "deny";
  actions: ("publish" | "subscribe")[];
  filter: string;
  text: string;
}

export interface RulesPage {
  /** There are no rules, and everything is allowed. */
  open: boolean;
  all: number;
  rules: Rule[];
  next: string | null;
}

export const SERIES = [
  "connections",
  "messages_received",
  "messages_sent",
  "bytes_received",
  "bytes_sent",
  "memory_bytes",
  "disk_bytes",
  "dropped",
  "log_sync_p99_us",
  "delivery_p99_us",
  "acknowledgement_p99_us",
] as const;
export type SeriesName = (typeof SERIES)[number];

/** The last hour, the oldest first; null where nothing is known. */
export interface History {
  step_ms: number;
  /** `null` in the first seconds. */
  ends_ms: number | null;
  series: Partial<Record<SeriesName, (number | null)[]>>;
}

export interface ClientSummary {
  client_id: string;
  mount_point: string | null;
  user: string | null;
  connected: boolean;
  /** These are there only while the client is connected. */
  listener?: string;
  address?: string | null;
  encrypted?: boolean;
  protocol?: string;
  keep_alive_s?: number;
  connected_ms?: number | null;
  last_received_ms?: number;
  output_bytes?: number;
  connection_bytes?: number;
  session_expiry_s: number | null;
  ends_at_ms: number | null;
  subscriptions: number;
  queued_messages: number;
  queued_bytes: number;
  in_flight: number;
  held_bytes: number;
}

export interface DropEvent {
  reason: string;
  topic: string;
  count: number;
  last_ms: number;
}

export interface ClientDetail extends ClientSummary {
  resumed: boolean;
  send_maximum: number;
  maximum_packet_size_bytes: number | null;
  receiving: number;
  will_topic: string | null;
  roles: string[];
  authenticated_by: string | null;
  not_heard_for: string[];
  acks_waiting: number;
  drops: DropEvent[];
}

export interface ClientsPage {
  matched: number;
  clients: ClientSummary[];
  next: string | null;
}

export interface Subscription {
  filter: string;
  qos: number;
  no_local: boolean;
  retain_as_published: boolean;
  retain_handling: number;
  identifier: number | null;
  format: string | null;
}

export interface SubscriptionsPage {
  subscriptions: Subscription[];
  next: string | null;
}

export interface Finding {
  code: string;
  text: string;
  change: string;
}

export interface Why {
  outcome: "arrives" | "waits" | "one_of_many" | "does_not_arrive" | "elsewhere";
  findings: Finding[];
  drops: DropEvent[];
}

export interface Ban {
  client_id?: string;
  user?: string;
  network?: string;
  until_unix_s: number | null;
  why: string;
}

export interface TopicLevel {
  level: string;
  topic: string;
  retained: boolean;
  /** Retained messages below it. */
  below: number;
}

export interface TopicsPage {
  levels: TopicLevel[];
  next: string | null;
}

export interface RetainedMessage {
  topic: string;
  qos: number;
  /** null where the message lies on disk, and its payload is not shown. */
  payload_bytes: number | null;
  expires_ms: number | null;
  content_type: string | null;
  contract: string | null;
}

export interface RetainedPage {
  matched: number;
  messages: RetainedMessage[];
  next: string | null;
}

export interface Deleted {
  deleted: number;
  /** What the broker could not delete at the moment. */
  refused?: number;
  /** A request deletes a bounded number; here is more. */
  more?: boolean;
}

/** What the contract makes of it, else text if it is that, else bytes. */
export interface Payload {
  decoded?: unknown;
  text?: string;
  payload_base64?: string;
}

export type RetainedWithPayload = RetainedMessage & Payload & { payload_bytes: number };

export interface TapMessage extends Payload {
  at_ms: number;
  topic: string;
  qos: number;
  retain: boolean;
  client_id: string | null;
  payload_bytes: number;
  contract: string | null;
  /** Only the beginning of the payload is here. */
  cut?: boolean;
}

export interface Contract {
  name: string;
  topics: string;
  filter: string;
  formats: string[];
  schemaSha256: string;
  message?: string;
  onViolation: string;
  unacknowledged: string;
  unknownFields: string;
  ties?: Record<string, string>;
  violations?: number;
  samples?: ViolationSample[];
}

/** Why payloads broke a contract, one after the other in the same way. */
export interface ViolationSample {
  /** The field. */
  path: string;
  expected: string;
  rule: string;
  topic: string;
  count: number;
  last_ms: number;
}

/** What has been counted of a topic filter that `metrics.topics` names. */
export interface TopicTotals {
  filter: string;
  messages_received: number;
  messages_received_by_qos: number[];
  bytes_received: number;
  messages_delivered: number;
  bytes_delivered: number;
  messages_dropped: number;
}

export interface TopicMetrics {
  topics: TopicTotals[];
}

export interface ContractSchema {
  sha256: string;
  file: string;
  language: string;
  source: string;
}

export interface Contracts {
  contracts: Contract[];
  schemas?: ContractSchema[];
}

export interface Certificate {
  names: string[];
  not_after_ms: number;
}

export interface Listener {
  name: string;
  address: string | null;
  connections: number;
  accepted: number;
  refused: number;
  tls?: { certificates: Certificate[] } | null;
}

/** A life of a node of the cluster, as the one that answers sees it. */
export interface ClusterNode {
  name: string;
  life: string;
  this_one: boolean;
  state: "alive" | "closed" | "dying" | "buried";
  /** Where clients reach it; empty where nobody is told. */
  reference: string;
  sessions: number;
  age_ms: number;
}

export interface Cluster {
  name: string;
  serving: boolean;
  draining: boolean;
  /** `why` it waits, or why the last access that was given cannot be used. */
  nats: { state: "ready" | "waiting"; why: string | null };
  nodes: ClusterNode[];
  log: { messages_waiting: number; bytes_waiting: number; slowest_ms: number | null };
  sessions: { serving: number; resting: number };
  retained: { position: number; end: number; complete: boolean; unreadable: number };
  configuration: { held: number; latest: number; behind: boolean; why: string[] };
  sessions_freed: number;
  sessions_adopted: number;
  messages_given_back: number;
  messages_timed_out: number;
  clients_moved: number;
  spreads_unanswered: number;
}

export interface ConfigDiff {
  applied: string[];
  new_connections: string[];
  after_restart: string[];
  listeners_added: string[];
  listeners_removed: string[];
  addresses: Record<string, string>;
  contracts: number | null;
  rules: number | null;
}

/** What `tautwire acl explain` is asked. */
export interface ExplainQuestion {
  client_id: string;
  user?: string;
  listener?: string;
  roles?: string[];
  action: "publish" | "subscribe";
  /** Of a publish. */
  topic?: string;
  /** Of a subscription. */
  filter?: string;
  qos: number;
  retain?: boolean;
}

export interface Explanation {
  allowed: boolean;
  /** The request in words. */
  request: string;
  /** The one that decides; `null` if none matches. */
  rule: { file: string; line: number; role: string; text: string } | null;
  /** A topic that the filter of a subscription matches, and that is not allowed. */
  example: string | null;
  reason: string;
  roles: { role: string; because: string }[];
  notes: string[];
}
