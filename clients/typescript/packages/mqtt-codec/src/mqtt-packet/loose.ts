// Packets from a program without type checks: every field has to be checked at run time.

/** A packet whose fields may have any type. */
export type LoosePacket = Record<string, unknown> & { cmd: string; properties?: LooseProperties | null };

/** Properties by the names of `mqtt-packet`, with values of any type. */
export type LooseProperties = Record<string, unknown>;
