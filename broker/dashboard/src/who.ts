// Who is logged in, and what that one may do.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { ROLES, type Role, type Session } from "./api/shapes";

export const Who = createContext<Session | null>(null);

export function useMay(role: Role): boolean {
  const session = useContext(Who);
  return session !== null && may(session, role);
}

export function useMaySeePayloads(): boolean {
  return useContext(Who)?.payloads === true;
}

export function may(session: Session, role: Role): boolean {
  return ROLES.indexOf(session.role) >= ROLES.indexOf(role);
}
