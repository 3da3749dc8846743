// A packet as it comes from a program that no compiler has looked at: every field has to be looked at.

/** A packet whose fields may hold anything. */
export type LoosePacket = Record<string, unknown> & { cmd: string; properties?: LooseProperties | null };

/** Properties by the names of `mqtt-packet`, which may hold anything. */
export type LooseProperties = Record<string, unknown>;
