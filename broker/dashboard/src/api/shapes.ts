// Names for the types of the admin API's responses, which are generated: described.ts.

import type { Schemas } from "./described";

export type Role = Schemas["Role"];
/** Each role includes the previous ones. */
export const ROLES = ["read", "operate", "administer"] as const satisfies readonly Role[];

export type Session = Schemas["Session"];
export type Overview = Schemas["Overview"];
export type History = Schemas["History"];
export type SeriesName = keyof History["series"];
export type RulesPage = Schemas["Rules"];
export type Rule = RulesPage["rules"][number];
export type ClientSummary = Schemas["Client"];
export type ClientDetail = Schemas["ClientDetail"];
export type ClientsPage = Schemas["Clients"];
export type DropEvent = Schemas["Drop"];
export type Subscription = Schemas["Subscription"];
export type Why = Schemas["DeliveryExplanation"];
export type Ban = Schemas["Ban"];
export type TopicsPage = Schemas["Topics"];
export type TopicLevel = TopicsPage["levels"][number];
export type RetainedPage = Schemas["RetainedPage"];
export type RetainedMessage = Schemas["RetainedSummary"];
export type RetainedWithPayload = Schemas["RetainedMessage"];
export type Deleted = Schemas["RemoveResult"];
export type TapMessage = Schemas["TapMessage"];
/** The payload decoded by its contract, or text, or bytes. */
export type Payload = Pick<TapMessage, "decoded" | "text" | "payload_base64">;
export type Contract = Schemas["Contract"];
export type ListedContract = Schemas["ContractSummary"];
export type ViolationSample = Schemas["ViolationSample"];
export type TopicTotals = Schemas["TopicMetrics"]["topics"][number];
export type Listener = Schemas["Listeners"]["listeners"][number];
export type Certificate = NonNullable<Listener["tls"]>["certificates"][number];
export type Bridge = Schemas["Bridge"];
export type BridgeDetail = Schemas["BridgeDetail"];
export type BridgeRule = Schemas["BridgeRule"];
export type BridgeTestResult = Schemas["BridgeTestResult"];
export type Cluster = Schemas["Cluster"];
export type ClusterNode = Schemas["ClusterNode"];
export type ConfigDiff = Schemas["ReloadResult"];
export type ExplainRequest = Schemas["ExplainRequest"];
export type Explanation = Schemas["Explanation"];
