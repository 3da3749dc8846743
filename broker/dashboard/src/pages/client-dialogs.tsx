// Confirmation dialogs: disconnect or ban a client, or end its session.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../api/request";
import type { ClientDetail } from "../api/shapes";
import { count } from "../format";
import { Dialog } from "../ui/dialog";

export type ClientAction = "disconnect" | "ban" | "end";

interface ClientDialogProps {
  action: ClientAction;
  client: ClientDetail;
  onDone: () => void;
  onClose: () => void;
}

export function ClientDialog({ action, client, onDone, onClose }: ClientDialogProps): JSX.Element {
  const remove = (name: "DELETE /v1/clients/{client}/connection" | "DELETE /v1/clients/{client}/session") => async (): Promise<void> => {
    await request(name, { path: { client: client.client_id }, query: { mount_point: client.mount_point } });
    onDone();
  };
  switch (action) {
    case "disconnect":
      return (
        <Dialog title={`Disconnect ${client.client_id}?`} verb="Disconnect" action={remove("DELETE /v1/clients/{client}/connection")} onClose={onClose}>
          <p>The client receives the reason code 0x98, Administrative action. Its session is kept, and it may reconnect at once. To prevent that, ban it.</p>
        </Dialog>
      );
    case "end":
      return (
        <Dialog title={`End the session of ${client.client_id}?`} verb="End session" action={remove("DELETE /v1/clients/{client}/session")} onClose={onClose}>
          <p>
            {count(client.subscriptions)} subscriptions and {count(client.queued_messages)} queued messages are lost permanently.
            {client.connected && " The client is disconnected first."}
          </p>
        </Dialog>
      );
    case "ban":
      return <BanDialog client={client} onDone={onDone} onClose={onClose} />;
  }
}

const DURATIONS: readonly (readonly [seconds: string, name: string])[] = [
  ["3600", "one hour"],
  ["86400", "one day"],
  ["604800", "one week"],
  ["", "until lifted"],
];

function BanDialog({ client, onDone, onClose }: { client: ClientDetail; onDone: () => void; onClose: () => void }): JSX.Element {
  const targets = banTargets(client);
  const [chosen, setChosen] = useState(0);
  const [seconds, setSeconds] = useState("3600");
  const [why, setWhy] = useState("");
  const ban = async (): Promise<void> => {
    const body = { ...targets[chosen]?.who, ...(seconds === "" ? {} : { seconds: Number(seconds) }), reason: why };
    await request("POST /v1/bans", { body });
    onDone();
  };
  return (
    <Dialog title="Ban" verb="Ban" action={ban} onClose={onClose}>
      <fieldset>
        <legend>Whom</legend>
        {targets.map(({ text }, at) => (
          <label key={text}>
            <input type="radio" name="target" checked={chosen === at} onChange={() => setChosen(at)} /> {text}
          </label>
        ))}
      </fieldset>
      <label class="field">
        For how long
        <select value={seconds} onChange={(event) => setSeconds(event.currentTarget.value)}>
          {DURATIONS.map(([value, name]) => (
            <option key={name} value={value}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        Reason, for the log and for other operators
        <input value={why} maxLength={200} onInput={(event) => setWhy(event.currentTarget.value)} />
      </label>
      <p>All matching clients are disconnected at once.</p>
    </Dialog>
  );
}

interface Target {
  text: string;
  who: { client_id: string } | { user: string } | { network: string };
}

function banTargets({ client_id, user, address }: ClientDetail): Target[] {
  const targets: Target[] = [{ text: `the Client Identifier ${client_id}`, who: { client_id } }];
  if (user !== null) {
    targets.push({ text: `the user ${user}, including all clients`, who: { user } });
  }
  const host = address === null || address === undefined ? null : hostOf(address);
  if (host !== null) {
    targets.push({ text: `the address ${host}`, who: { network: host } });
  }
  return targets;
}

/** `192.0.2.7:50124` and `[2001:db8::1]:50124` without the port. */
function hostOf(address: string): string | null {
  return /^\[(.+)\]:\d+$/.exec(address)?.[1] ?? /^([\d.]+):\d+$/.exec(address)?.[1] ?? null;
}
