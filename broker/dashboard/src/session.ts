// The session of the logged-in user, and its permissions.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { ROLES, type Role, type Session } from "./api/shapes";

export const SessionContext = createContext<Session | null>(null);

export function useMay(role: Role): boolean {
  const session = useContext(SessionContext);
  return session !== null && may(session, role);
}

export function useMaySeePayloads(): boolean {
  return useContext(SessionContext)?.payloads === true;
}

export function may(session: Session, role: Role): boolean {
  return ROLES.indexOf(session.role) >= ROLES.indexOf(role);
}
