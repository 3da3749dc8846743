// Maps addresses to pages.

import type { JSX } from "preact";
import { type Route, href } from "../router";
import { Empty, Page } from "../ui/page";
import { BansPage } from "./bans";
import { BridgePage } from "./bridge";
import { BridgesPage } from "./bridges";
import { ClientPage } from "./client";
import { ClientsPage } from "./clients";
import { ClusterPage } from "./cluster";
import { OverviewPage } from "./overview";
import { ConfigPage } from "./config";
import { ContractPage } from "./contract";
import { ContractsPage } from "./contracts";
import { ListenersPage } from "./listeners";
import { RulesPage } from "./rules";
import { TapPage } from "./tap";
import { TopicsPage } from "./topics";
import { WhyPage } from "./why";

interface Section {
  name: string;
  title: string;
  page: (route: Route) => JSX.Element;
}

export const SECTIONS: readonly Section[] = [
  { name: "overview", title: "Overview", page: () => <OverviewPage /> },
  {
    name: "clients",
    title: "Clients",
    page: ({ path, query }) => {
      const clientId = path[1];
      const mountPoint = query["mount_point"] ?? null;
      // Another client is another page, with its own focus and dialogs.
      return clientId === undefined ? <ClientsPage query={query} /> : <ClientPage key={`${mountPoint ?? ""}\n${clientId}`} clientId={clientId} mountPoint={mountPoint} />;
    },
  },
  { name: "why", title: "Why?", page: ({ query }) => <WhyPage query={query} /> },
  { name: "topics", title: "Topics", page: ({ query }) => <TopicsPage query={query} /> },
  { name: "tap", title: "Live tap", page: ({ query }) => <TapPage query={query} /> },
  {
    name: "contracts",
    title: "Contracts",
    page: ({ path }) => (path[1] === undefined ? <ContractsPage /> : <ContractPage key={path[1]} name={path[1]} />),
  },
  { name: "rules", title: "Access rules", page: () => <RulesPage /> },
  { name: "bans", title: "Bans", page: () => <BansPage /> },
  { name: "listeners", title: "Listeners", page: () => <ListenersPage /> },
  { name: "bridges", title: "Bridges", page: ({ path }) => (path[1] === undefined ? <BridgesPage /> : <BridgePage key={path[1]} name={path[1]} />) },
  { name: "cluster", title: "Cluster", page: () => <ClusterPage /> },
  { name: "config", title: "Configuration", page: () => <ConfigPage /> },
];

export function pageFor(route: Route): { section: string | null; page: JSX.Element } {
  const name = route.path[0] ?? "overview";
  const section = SECTIONS.find((known) => known.name === name);
  return section === undefined ? { section: null, page: <UnknownPage /> } : { section: section.name, page: section.page(route) };
}

function UnknownPage(): JSX.Element {
  return (
    <Page title="No such page">
      <Empty title="This page does not exist.">
        Go to the <a href={href(["overview"])}>overview</a>.
      </Empty>
    </Page>
  );
}
